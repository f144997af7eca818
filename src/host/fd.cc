#include "host/fd.h"

#include <unistd.h>

namespace weft::host {

// The object is whole before anything can throw, so that its destructor closes the fd.
Fd::Fd(int fd) : Fd() {
  fd_ = fd;
  generation_ = fork_generation();
  if (fd >= 0) fd_ = close_in_child(fd);
}

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
    generation_ = std::exchange(other.generation_, 0);
  }
  return *this;
}

int Fd::release() {
  const int fd = get();
  fd_ = -1;
  if (fd >= 0) fd_is_gone(fd);
  return fd;
}

void Fd::reset() {
  if (fd_ < 0) return;
  const ForkHold hold;
  const int fd = checked();
  release();
  if (fd >= 0) close(fd);
}

}  // namespace weft::host

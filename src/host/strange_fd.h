// A descriptor that a peer sent, before it is known what it is. It may be anything, and to close
// some things waits for somebody: a socket that lingers, a file whose file system is a process. So
// one that nobody claims is closed by a thread that has nothing else to do. One thread at a time
// for each object.
#pragma once

#include <utility>

#include "host/fd.h"

namespace weft::host {

class StrangeFd {
 public:
  StrangeFd() = default;
  StrangeFd(Fd fd) : fd_(std::move(fd)) {}
  /// Takes over `fd`, inside the ForkHold in which it was received.
  StrangeFd(int fd) : fd_(fd) {}
  StrangeFd(StrangeFd&& other) noexcept = default;
  StrangeFd& operator=(StrangeFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::move(other.fd_);
    }
    return *this;
  }
  ~StrangeFd() { reset(); }

  int get() const { return fd_.get(); }
  explicit operator bool() const { return bool(fd_); }
  /// The caller has found out what it is, and that it can be closed at once.
  Fd claim() { return std::move(fd_); }
  int release() { return fd_.release(); }
  void reset();

 private:
  Fd fd_;
};

/// Closes a descriptor of this process, also if that takes for ever: on another thread. A few such
/// threads at most; what they do not get to stays open.
void close_aside(int fd);

}  // namespace weft::host

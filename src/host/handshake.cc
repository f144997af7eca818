#include "host/handshake.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "host/fork.h"

namespace weft::host {
namespace {

bool is_called(int fd, std::string_view name) {
  char target[64];
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t n = readlink(path.c_str(), target, sizeof target);
  return n > 0 && std::string_view(target, static_cast<std::size_t>(n)) == name;
}

}  // namespace

Fd take_eventfd(Fd fd) {
  if (!is_called(fd.get(), "anon_inode:[eventfd]")) return {};
  const int flags = fcntl(fd.get(), F_GETFL);
  if (flags < 0 || fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) return {};
  return fd;
}

Fd take_pidfd(Fd fd) {
  // Newer kernels keep them in a file system of their own.
  const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  char target[64];
  const ssize_t n = readlink(path.c_str(), target, sizeof target);
  const std::string_view name(target, n > 0 ? static_cast<std::size_t>(n) : 0);
  if (name == "anon_inode:[pidfd]" || name.starts_with("pidfd:")) return fd;
  return {};
}

Fd open_own_pidfd() {
  const ForkHold hold;
  return Fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
}

}  // namespace weft::host

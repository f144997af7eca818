#include "host/handshake.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "host/fork.h"

namespace weft::host {

Fd take_pidfd(StrangeFd fd) {
  // Newer kernels keep them in a file system of their own.
  const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  char target[64];
  const ssize_t n = readlink(path.c_str(), target, sizeof target);
  const std::string_view name(target, n > 0 ? static_cast<std::size_t>(n) : 0);
  if (name != "anon_inode:[pidfd]" && !name.starts_with("pidfd:")) return {};
  know_by_inode(fd.get());
  return fd.claim();
}

Fd open_own_pidfd() {
  const ForkHold hold;
  return Fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
}

}  // namespace weft::host

#include "host/fd_mark.h"

#include <fcntl.h>

#include <atomic>
#include <cerrno>

namespace weft::host {
namespace {

/// A real-time signal that hardly anybody asks for; nothing is ever sent.
constexpr int kMark = 61;

std::atomic<bool> marks_work{true};

}  // namespace

bool mark_as_ours(int fd) {
  if (fd < 0 || fcntl(fd, F_SETSIG, kMark) == 0) return true;
  if (errno == EBADF) {
    const int flags = fcntl(fd, F_GETFL);
    return flags < 0 || (flags & O_PATH) == 0;
  }
  // Some sandboxes do not know the call: there weft trusts its numbers.
  marks_work.store(false, std::memory_order_relaxed);
  return true;
}

bool is_ours(int fd) {
  if (fd < 0) return false;
  if (!marks_work.load(std::memory_order_relaxed)) return fcntl(fd, F_GETFD) >= 0;
  return fcntl(fd, F_GETSIG) == kMark;
}

}  // namespace weft::host

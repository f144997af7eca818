#include "host/fd_mark.h"

#include <fcntl.h>

#include <atomic>

namespace weft::host {
namespace {

/// A real-time signal that hardly anybody asks for; nothing is ever sent.
constexpr int kMark = 61;

std::atomic<bool> marks_work{true};

}  // namespace

void mark_as_ours(int fd) {
  // Some sandboxes do not know the call: there weft trusts its numbers.
  if (fd >= 0 && fcntl(fd, F_SETSIG, kMark) != 0)
    marks_work.store(false, std::memory_order_relaxed);
}

bool is_ours(int fd) {
  if (fd < 0) return false;
  if (!marks_work.load(std::memory_order_relaxed)) return fcntl(fd, F_GETFD) >= 0;
  return fcntl(fd, F_GETSIG) == kMark;
}

}  // namespace weft::host

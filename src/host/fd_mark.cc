#include "host/fd_mark.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>

namespace weft::host {
namespace {

/// A real-time signal that hardly anybody asks for; nothing is ever sent.
constexpr int kMark = 61;

std::atomic<bool> marks_work{true};

/// By number; 0: not known. Descriptors with higher numbers have their mark only. Plain atomics, so
/// that a child after fork finds it whole.
constexpr std::size_t kKnownInodes = 4096;
std::array<std::atomic<std::uint64_t>, kKnownInodes> inodes{};

std::uint64_t inode_of(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return 0;
  return status.st_ino ^ std::uint64_t{status.st_dev} << 40;
}

std::atomic<std::uint64_t>* known_inode(int fd) {
  return static_cast<std::size_t>(fd) < kKnownInodes ? &inodes[static_cast<std::size_t>(fd)]
                                                     : nullptr;
}

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
  const int mark = fcntl(fd, F_GETSIG);
  if (mark == kMark) return true;
  const auto* known = known_inode(fd);
  const std::uint64_t inode = known != nullptr ? known->load(std::memory_order_relaxed) : 0;
  return mark >= 0 && inode != 0 && inode == inode_of(fd);
}

void know_by_inode(int fd) {
  constexpr long kAnonymousInodes = 0x09041934;  // all files there have the same
  struct statfs system {};
  auto* const known = fd >= 0 ? known_inode(fd) : nullptr;
  if (known == nullptr || fstatfs(fd, &system) != 0 || system.f_type == kAnonymousInodes) return;
  known->store(inode_of(fd), std::memory_order_relaxed);
}

void forget_inode(int fd) {
  if (auto* const known = fd >= 0 ? known_inode(fd) : nullptr) {
    known->store(0, std::memory_order_relaxed);
  }
}

}  // namespace weft::host

// Part of every test program with the address sanitizer. The sanitizer's allocator (gcc 12) does
// not know of fork: a lock of it that another thread holds at that moment stays held in the child,
// where the next allocation never returns. The C library's allocator is safe, so programs of users
// are. Here a fork waits, for a moment at most, until all other threads sleep in a call of the
// kernel in which nobody holds such a lock.
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace weft::test {
namespace {

/// A thread that works all the time never sleeps, and a test may have one.
constexpr int kMostLooks = 500;
constexpr unsigned kPause_us = 100;
/// In which a thread may be while it allocates.
constexpr std::array kCallsOfAllocators{SYS_mmap,   SYS_munmap,  SYS_mprotect,
                                        SYS_mremap, SYS_madvise, SYS_sched_yield};

/// "running", or the number of the call in which the thread sleeps; -1: a page fault.
bool is_quiet(const std::string& task) {
  const int fd = ::open(("/proc/self/task/" + task + "/syscall").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return true;  // it has ended
  std::array<char, 128> text{};
  const ssize_t size = ::read(fd, text.data(), text.size() - 1);
  ::close(fd);
  if (size <= 0) return true;
  char* end = nullptr;
  const long call = std::strtol(text.data(), &end, 10);
  return end != text.data() && call >= 0 && std::ranges::count(kCallsOfAllocators, call) == 0;
}

bool others_are_quiet() {
  DIR* const tasks = ::opendir("/proc/self/task");
  if (tasks == nullptr) return true;
  const std::string own = std::to_string(gettid());
  bool quiet = true;
  while (const dirent* task = ::readdir(tasks)) {
    quiet = quiet && (task->d_name[0] == '.' || task->d_name == own || is_quiet(task->d_name));
  }
  ::closedir(tasks);
  return quiet;
}

void wait_for_others() {
  for (int look = 0; look < kMostLooks && !others_are_quiet(); ++look) ::usleep(kPause_us);
}

[[maybe_unused]] const int at_start = pthread_atfork(wait_for_others, nullptr, nullptr);

}  // namespace
}  // namespace weft::test

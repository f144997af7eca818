// execl and its kin in a child of vfork, which lives in its parent's memory: what it allocates
// there is lost for ever, and a thread of the parent may be inside malloc. This program counts
// calls of malloc, so it is one of its own.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WEFT_MALLOC_IS_TAKEN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEFT_MALLOC_IS_TAKEN 1
#endif
#endif

namespace {

std::atomic<pid_t> counted{0};  // whose calls count
std::atomic<int> allocations{0};

}  // namespace

#if !defined(WEFT_MALLOC_IS_TAKEN)
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* malloc(std::size_t bytes) {
  if (counted.load(std::memory_order_relaxed) != 0 && counted == getpid()) ++allocations;
  return __libc_malloc(bytes);
}
}
#endif

namespace {

enum class Call { kList, kListFromPath, kListWithEnvironment };

class ExecAfterVfork : public testing::TestWithParam<Call> {};

[[noreturn]] void become_another(Call call) {
  char* const environment[] = {const_cast<char*>("WEFT_TEST=yes"), nullptr};
  constexpr const char* kShell = "/bin/sh";
  constexpr const char* kCheck = "test \"$1$2$3\" = abc && test -z \"$4\"";
  switch (call) {
    case Call::kList:
      execl(kShell, "sh", "-c", kCheck, "sh", "a", "b", "c", nullptr);
      break;
    case Call::kListFromPath:
      execlp("sh", "sh", "-c", kCheck, "sh", "a", "b", "c", nullptr);
      break;
    case Call::kListWithEnvironment:
      execle(kShell, "sh", "-c", "test \"$WEFT_TEST\" = yes", nullptr, environment);
      break;
  }
  _exit(127);
}

/// What the other program ended with.
[[gnu::noinline]] int run_another(Call call) {
  const pid_t child = vfork();
  if (child == 0) {
    counted = getpid();
    become_another(call);
  }
  counted = 0;
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST_P(ExecAfterVfork, allocates_nothing_and_passes_every_argument) {
#if defined(WEFT_MALLOC_IS_TAKEN)
  GTEST_SKIP() << "malloc is the sanitizer's";
#endif
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!done) ::operator delete(::operator new(100));
    });
  }
  for (int round = 0; round < 50; ++round) EXPECT_EQ(run_another(GetParam()), 0);
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocations, 0);
}

INSTANTIATE_TEST_SUITE_P(By, ExecAfterVfork,
                         testing::Values(Call::kList, Call::kListFromPath,
                                         Call::kListWithEnvironment));

}  // namespace

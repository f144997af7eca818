// Programs whose own way with SIGSEGV meets the guard: each test is a process of its own under
// `weft run` (guard_test.cc). Memory that is registered goes away, and a peer writes to it.
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/shim/verbs_fixture.h"

namespace {

sigjmp_buf recovery;
volatile sig_atomic_t calls = 0;
void* volatile fault_address = nullptr;

void jump_away(int, siginfo_t* info, void*) {
  calls = calls + 1;
  fault_address = info->si_addr;
  siglongjmp(recovery, 1);
}
void plain_jump_away(int) {
  calls = calls + 1;
  siglongjmp(recovery, 1);
}

struct GuardCases : weft::test::VerbsProgram {
  void SetUp() override {
    alarm(60);  // a handler that jumps out of weft's hands may leave a lock behind
    VerbsProgram::SetUp();
    // Far from where the kernel puts things by itself: what a thread maps may not take its place.
    void* const far = reinterpret_cast<void*>(0x2000'0000'0000);
    page = static_cast<std::byte*>(
        mmap(far, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    page_mr = ibv_reg_mr(pd, page, 4096, kRights);
    ASSERT_NE(page_mr, nullptr);
    connect();
    // Once while all is well, so that whatever is remembered about keys is.
    ASSERT_EQ(write(), IBV_WC_SUCCESS);
    ASSERT_EQ(munmap(page, 4096), 0);
  }
  void TearDown() override {
    ibv_dereg_mr(page_mr);
    VerbsProgram::TearDown();
  }
  ibv_wc_status write() {
    EXPECT_EQ(
        post(IBV_WR_RDMA_WRITE, part(0, 64), reinterpret_cast<std::uint64_t>(page), page_mr->rkey),
        0);
    return next().status;
  }
  /// A fault of the program's own, which its handler gets.
  bool faults_by_itself() {
    const int before = calls;
    if (sigsetjmp(recovery, 1) == 0) *reinterpret_cast<volatile char*>(page) = 1;
    return calls == before + 1;
  }

  std::byte* page = nullptr;
  ibv_mr* page_mr = nullptr;
};

sigset_t all_signals() {
  sigset_t all;
  sigfillset(&all);
  return all;
}

TEST_F(GuardCases, a_thread_that_has_all_signals_blocked_polls) {
  const sigset_t all = all_signals();
  ibv_wc_status status = IBV_WC_SUCCESS;
  std::thread([&] {
    ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &all, nullptr), 0);
    status = write();
  }).join();
  EXPECT_EQ(status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(GuardCases, signals_are_blocked_between_two_calls) {
  const sigset_t all = all_signals();
  sigset_t seen;
  ASSERT_EQ(sigprocmask(SIG_SETMASK, &all, &seen), 0);
  EXPECT_EQ(sigismember(&seen, SIGSEGV), 0);
  EXPECT_EQ(write(), IBV_WC_REM_ACCESS_ERR);
  // The program sees what it has asked for.
  ASSERT_EQ(pthread_sigmask(SIG_UNBLOCK, nullptr, &seen), 0);
  EXPECT_EQ(sigismember(&seen, SIGSEGV), 1);
  EXPECT_EQ(sigismember(&seen, SIGBUS), 1);
  EXPECT_EQ(sigismember(&seen, SIGUSR1), 1);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGSEGV);
  ASSERT_EQ(pthread_sigmask(SIG_UNBLOCK, &one, nullptr), 0);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, nullptr, &seen), 0);
  EXPECT_EQ(sigismember(&seen, SIGSEGV), 0);
  EXPECT_EQ(sigismember(&seen, SIGBUS), 1);
}

TEST_F(GuardCases, a_thread_inherits_that_signals_are_blocked) {
  const sigset_t all = all_signals();
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &all, nullptr), 0);
  ibv_wc_status status = IBV_WC_SUCCESS;
  std::thread([&] { status = write(); }).join();
  EXPECT_EQ(status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(GuardCases, a_handler_is_set_later_by_sigaction) {
  struct sigaction action {
  }, seen{};
  action.sa_sigaction = jump_away;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaddset(&action.sa_mask, SIGUSR1);
  ASSERT_EQ(sigaction(SIGSEGV, &action, &seen), 0);
  EXPECT_EQ(seen.sa_handler, SIG_DFL);
  ASSERT_EQ(sigaction(SIGSEGV, nullptr, &seen), 0);
  EXPECT_EQ(seen.sa_sigaction, &jump_away);
  EXPECT_EQ(seen.sa_flags & (SA_SIGINFO | SA_NODEFER | SA_ONSTACK), SA_SIGINFO | SA_NODEFER);
  EXPECT_EQ(sigismember(&seen.sa_mask, SIGUSR1), 1);
  EXPECT_TRUE(faults_by_itself());
  EXPECT_EQ(fault_address, page);
  EXPECT_EQ(write(), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(faults_by_itself());
}

TEST_F(GuardCases, a_handler_is_set_later_by_signal) {
  EXPECT_EQ(signal(SIGSEGV, plain_jump_away), SIG_DFL);
  EXPECT_TRUE(faults_by_itself());
  EXPECT_EQ(write(), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(signal(SIGSEGV, SIG_DFL), &plain_jump_away);
}

TEST_F(GuardCases, a_handler_is_for_one_time) {
  struct sigaction action {
  }, seen{};
  action.sa_sigaction = jump_away;
  action.sa_flags = static_cast<int>(SA_SIGINFO | SA_RESETHAND);
  ASSERT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
  EXPECT_TRUE(faults_by_itself());
  ASSERT_EQ(sigaction(SIGSEGV, nullptr, &seen), 0);
  EXPECT_EQ(seen.sa_handler, SIG_DFL);
  EXPECT_EQ(write(), IBV_WC_REM_ACCESS_ERR);
}

/// What a child that touches the page ends by.
int end_of_fault(std::byte* page) {
  const pid_t child = fork();
  if (child == 0) {
    *reinterpret_cast<volatile char*>(page) = 1;
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST_F(GuardCases, the_default_is_set_later) {
  signal(SIGSEGV, plain_jump_away);
  EXPECT_EQ(signal(SIGSEGV, SIG_DFL), &plain_jump_away);
  EXPECT_EQ(end_of_fault(page), SIGSEGV);
  EXPECT_EQ(write(), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(GuardCases, the_signal_is_ignored_later) {
  EXPECT_EQ(signal(SIGSEGV, SIG_IGN), SIG_DFL);
  raise(SIGSEGV);
  EXPECT_EQ(end_of_fault(page), SIGSEGV);
  EXPECT_EQ(write(), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(GuardCases, a_child_of_vfork_changes_only_its_own_signals) {
  signal(SIGSEGV, plain_jump_away);
  const sigset_t all = all_signals();
  const pid_t child = vfork();
  if (child == 0) {
    signal(SIGSEGV, SIG_IGN);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(faults_by_itself());
  sigset_t seen;
  sigprocmask(SIG_BLOCK, nullptr, &seen);
  EXPECT_EQ(sigismember(&seen, SIGSEGV), 0);
  EXPECT_EQ(write(), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(GuardCases, a_handler_runs_on_the_stack_that_the_program_wants) {
  static std::byte stack[65536];
  static std::byte* volatile ran_at = nullptr;
  const stack_t alternate{stack, 0, sizeof stack};
  ASSERT_EQ(sigaltstack(&alternate, nullptr), 0);
  const auto runs_on_it = [&](int flags) {
    struct sigaction action {};
    action.sa_handler = [](int) {
      std::byte here{};
      ran_at = &here;
      siglongjmp(recovery, 1);
    };
    action.sa_flags = flags;
    sigaction(SIGSEGV, &action, nullptr);
    if (sigsetjmp(recovery, 1) == 0) *reinterpret_cast<volatile char*>(page) = 1;
    return ran_at >= stack && ran_at < stack + sizeof stack;
  };
  EXPECT_TRUE(runs_on_it(SA_ONSTACK));
  EXPECT_FALSE(runs_on_it(0));
  EXPECT_EQ(write(), IBV_WC_REM_ACCESS_ERR);
  EXPECT_TRUE(runs_on_it(SA_ONSTACK));
}

}  // namespace

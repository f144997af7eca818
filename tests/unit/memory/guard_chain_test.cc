// What becomes of faults that are not weft's. Each test runs in a process of its own, since
// handlers belong to the whole process and the guard is installed once.
#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <thread>

#include "memory/flight.h"
#include "memory/guard.h"
#include "memory/guard_signals.h"
#include "unit/memory/pages.h"

namespace weft::memory {
namespace {

using test::Pages;

sigjmp_buf program_recovery;
volatile sig_atomic_t program_calls = 0;
void* volatile program_address = nullptr;

void set_handler(int signal, void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = flags | SA_SIGINFO;
  sigaction(signal, &action, nullptr);
}

void set_plain_handler(int signal, void (*handler)(int), int flags = 0) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal, &action, nullptr);
}

void jump_away(int, siginfo_t* info, void*) {
  program_calls = program_calls + 1;
  program_address = info->si_addr;
  siglongjmp(program_recovery, 1);
}

void exit_7(int) { _exit(7); }
void count(int) { program_calls = program_calls + 1; }

[[gnu::noinline]] void poke(std::byte* at) { *reinterpret_cast<volatile char*>(at) = 1; }

[[noreturn]] void finish(bool good) { _exit(good ? 0 : 1); }

class GuardChainDeathTest : public testing::Test {
 protected:
  GuardChainDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

[[noreturn]] void own_faults_reach_the_program() {
  set_handler(SIGSEGV, jump_away, 0);
  set_handler(SIGBUS, jump_away, 0);
  install_guard();
  const Pages pages(1);
  const test::TruncatedFile file;
  pages.unmap(0);
  bool good = true;
  for (int i = 0; i < 3; ++i) {
    if (sigsetjmp(program_recovery, 1) == 0) poke(pages.data());
    good = good && program_address == pages.data();
    good = good && !guarded([&] { std::memset(pages.data(), 1, 64); });
    if (sigsetjmp(program_recovery, 1) == 0) poke(file.pages().page(1));
    good = good && program_address == file.pages().page(1);
  }
  finish(good && program_calls == 6);
}

TEST_F(GuardChainDeathTest, the_programs_handler_gets_its_own_faults_and_only_those) {
  EXPECT_EXIT(own_faults_reach_the_program(), testing::ExitedWithCode(0), "");
}

[[noreturn]] void plain_handler() {
  set_plain_handler(SIGSEGV, exit_7);
  install_guard();
  const Pages pages(1);
  pages.unmap(0);
  if (guarded([&] { std::memset(pages.data(), 1, 64); })) finish(false);
  poke(pages.data());
  finish(false);
}

TEST_F(GuardChainDeathTest, a_plain_handler_is_called_too) {
  EXPECT_EXIT(plain_handler(), testing::ExitedWithCode(7), "");
}

[[noreturn]] void no_handler() {
  set_plain_handler(SIGSEGV, SIG_DFL);
  install_guard();
  const Pages pages(1);
  pages.unmap(0);
  if (guarded([&] { std::memset(pages.data(), 1, 64); })) finish(false);
  poke(pages.data());
  finish(false);
}

TEST_F(GuardChainDeathTest, a_program_without_a_handler_dies_of_its_fault) {
  EXPECT_EXIT(no_handler(), testing::KilledBySignal(SIGSEGV), "");
}

[[noreturn]] void ignored() {
  set_plain_handler(SIGSEGV, SIG_IGN);
  install_guard();
  raise(SIGSEGV);  // sent, not a fault: ignored as before
  const Pages pages(1);
  pages.unmap(0);
  if (guarded([&] { std::memset(pages.data(), 1, 64); })) finish(false);
  poke(pages.data());
  finish(false);
}

TEST_F(GuardChainDeathTest, a_program_that_ignores_the_signal_dies_of_a_fault_only) {
  EXPECT_EXIT(ignored(), testing::KilledBySignal(SIGSEGV), "");
}

[[noreturn]] void sent_signal() {
  set_plain_handler(SIGSEGV, count);
  install_guard();
  const bool through = guarded([] { raise(SIGSEGV); });
  finish(through && program_calls == 1);
}

TEST_F(GuardChainDeathTest, a_signal_that_somebody_sent_is_not_taken_for_a_fault) {
  EXPECT_EXIT(sent_signal(), testing::ExitedWithCode(0), "");
}

[[noreturn]] void sent_to_default() {
  set_plain_handler(SIGBUS, SIG_DFL);
  install_guard();
  raise(SIGBUS);
  finish(false);
}

TEST_F(GuardChainDeathTest, a_sent_signal_without_a_handler_kills_as_ever) {
  EXPECT_EXIT(sent_to_default(), testing::KilledBySignal(SIGBUS), "");
}

[[noreturn]] void once_only() {
  set_plain_handler(SIGSEGV, count, static_cast<int>(SA_RESETHAND));
  install_guard();
  const Pages pages(1);
  pages.unmap(0);
  poke(pages.data());  // the handler counts and returns, the instruction faults again
  finish(false);
}

TEST_F(GuardChainDeathTest, a_handler_for_one_time_is_called_one_time) {
  EXPECT_EXIT(once_only(), testing::KilledBySignal(SIGSEGV), "");
}

// Where nothing stands before the C library's functions: what is promised there.

[[noreturn]] void blocked_in_a_thread() {
  install_guard();
  const Pages pages(1);
  pages.unmap(0);
  bool good = false;
  std::thread([&] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    const Flight::Scope scope(Hold::kSelf, &good);  // as everything that touches users' memory
    good = guarded_copy(pages.data(), pages.data(), 64) == Fault::kUnmapped;
  }).join();
  finish(good);
}

TEST_F(GuardChainDeathTest, a_thread_may_have_all_signals_blocked_before_its_first_use) {
  EXPECT_EXIT(blocked_in_a_thread(), testing::ExitedWithCode(0), "");
}

struct sigaction before_program {};

void call_those_before(int signal, siginfo_t* info, void* context) {
  program_calls = program_calls + 1;
  before_program.sa_sigaction(signal, info, context);
}

[[noreturn]] void later_handler_that_chains() {
  install_guard();
  struct sigaction action {};
  action.sa_sigaction = call_those_before;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, &before_program);
  const Pages pages(1);
  pages.unmap(0);
  std::byte word[8]{};
  bool good = true;
  for (int i = 0; i < 3; ++i) {
    good = good && guarded_copy(pages.data(), word, 8) == Fault::kUnmapped;
    good = good && !guarded([&] { std::memset(pages.data(), 1, 64); });
  }
  finish(good && program_calls == 6);
}

TEST_F(GuardChainDeathTest, a_later_handler_that_calls_the_one_before_it_does_no_harm) {
  EXPECT_EXIT(later_handler_that_chains(), testing::ExitedWithCode(0), "");
}

// What files/interpose_signals.cc makes of the program's calls.

[[noreturn]] void later_handler_through_the_guard() {
  install_guard();
  struct sigaction action {
  }, seen{};
  action.sa_sigaction = jump_away;
  action.sa_flags = SA_SIGINFO;
  bool good = guard::exchange_action(SIGSEGV, &action, nullptr) == 0 &&
              guard::exchange_action(SIGSEGV, nullptr, &seen) == 0 &&
              seen.sa_sigaction == jump_away;
  const Pages pages(1);
  pages.unmap(0);
  for (int i = 0; i < 3; ++i) {
    if (sigsetjmp(program_recovery, 1) == 0) poke(pages.data());
    good = good && !guarded([&] { std::memset(pages.data(), 1, 64); });
  }
  finish(good && program_calls == 3);
}

TEST_F(GuardChainDeathTest, a_handler_that_is_set_later_gets_its_own_faults_and_only_those) {
  EXPECT_EXIT(later_handler_through_the_guard(), testing::ExitedWithCode(0), "");
}

[[noreturn]] void handlers_that_change_all_the_time() {
  install_guard();
  std::atomic<bool> done{false};
  std::thread changes([&] {
    struct sigaction action {};
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    for (unsigned i = 0; !done; ++i) {
      action.sa_sigaction = i % 2 == 0 ? jump_away : call_those_before;
      guard::exchange_action(SIGSEGV, &action, nullptr);
    }
  });
  const Pages pages(1);
  pages.unmap(0);
  bool good = true;
  for (int i = 0; i < 20'000; ++i) {
    good = good && !guarded([&] { std::memset(pages.data(), 1, 64); });
  }
  done = true;
  changes.join();
  finish(good && program_calls == 0);
}

TEST_F(GuardChainDeathTest, faults_are_caught_while_handlers_change) {
  EXPECT_EXIT(handlers_that_change_all_the_time(), testing::ExitedWithCode(0), "");
}

[[noreturn]] void blocked_through_the_guard() {
  install_guard();
  sigset_t all, seen;
  sigfillset(&all);
  bool good = guard::exchange_mask(SIG_SETMASK, &all, nullptr) == 0;
  const Pages pages(1);
  pages.unmap(0);
  good = good && !guarded([&] { std::memset(pages.data(), 1, 64); });
  good = good && guard::exchange_mask(SIG_BLOCK, nullptr, &seen) == 0 &&
         sigismember(&seen, SIGSEGV) == 1 && sigismember(&seen, SIGBUS) == 1;
  good = good && guard::exchange_mask(77, &all, nullptr) == EINVAL;
  finish(good);
}

TEST_F(GuardChainDeathTest, signals_that_are_blocked_later_are_blocked_for_the_program_only) {
  EXPECT_EXIT(blocked_through_the_guard(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace weft::memory

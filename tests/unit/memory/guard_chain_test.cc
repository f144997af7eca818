// What becomes of faults that are not weft's. Each test runs in a process of its own, since
// handlers belong to the whole process and the guard is installed once.
#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>

#include <cstdio>

#include "memory/guard.h"
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

}  // namespace
}  // namespace weft::memory

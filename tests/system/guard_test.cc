// The memory guard in programs that have their own way with SIGSEGV: each case is a program of its
// own under `weft run` (guard_cases.cc), as a user's would be.
#include <gtest/gtest.h>

#include "support/run_weft.h"

namespace {

using weft::test::Ended;

class GuardSystem : public testing::TestWithParam<const char*> {};

TEST_P(GuardSystem, survives_memory_that_is_gone_though) {
  // The signals are the program's and weft's alone, and its frames lie on the true stack.
  weft::test::add_asan_options("handle_segv=0:handle_sigbus=0:detect_stack_use_after_return=0");
  const Ended ended = weft::test::weft({"run", "--", WEFT_BIN_DIR "/guard_cases",
                                        std::string("--gtest_filter=GuardCases.") + GetParam()});
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  EXPECT_TRUE(ended.says("[  PASSED  ] 1 test.")) << ended.output;
}

INSTANTIATE_TEST_SUITE_P(Though, GuardSystem,
                         testing::Values("a_thread_that_has_all_signals_blocked_polls",
                                         "signals_are_blocked_between_two_calls",
                                         "a_thread_inherits_that_signals_are_blocked",
                                         "a_handler_is_set_later_by_sigaction",
                                         "a_handler_is_set_later_by_signal",
                                         "a_handler_is_for_one_time", "the_default_is_set_later",
                                         "the_signal_is_ignored_later",
                                         "a_child_of_vfork_changes_only_its_own_signals",
                                         "a_handler_runs_on_the_stack_that_the_program_wants"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace

// Programs that are built with a sanitizer, by either compiler, under `weft run`: they do their
// work without a report, and the sanitizer still finds what is wrong with them. And valgrind.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "support/run_weft.h"

namespace weft {
namespace {

using test::Ended;

struct Build {
  const char* compiler;
  const char* sanitizer;
  const char* fault;   ///< what it has to find
  const char* report;  ///< and say
};

std::ostream& operator<<(std::ostream& to, const Build& build) {
  return to << build.compiler << ' ' << build.sanitizer;
}

constexpr Build kBuilds[] = {
    {"gcc", "address", "overflow", "heap-buffer-overflow"},
    {"gcc", "thread", "race", "data race"},
    {"gcc", "undefined", "undefined", "signed integer overflow"},
    {"gcc", "leak", "leak", "77 byte(s)"},
    {"clang", "address", "overflow", "heap-buffer-overflow"},
    {"clang", "thread", "race", "data race"},
    {"clang", "undefined", "undefined", "signed integer overflow"},
    {"clang", "leak", "leak", "77 byte(s)"},
};

std::string path_of(const Build& build) {
  return std::string(WEFT_BIN_DIR "/verbs_client_") + build.compiler + "_" + build.sanitizer;
}

class SanitizedProgram : public testing::TestWithParam<Build> {
 protected:
  void SetUp() override {
    if (access(path_of(GetParam()).c_str(), X_OK) != 0) {
      GTEST_SKIP() << "this compiler or its runtime was not there";
    }
    for (const char* name : {"ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"}) {
      unsetenv(name);
    }
  }

  static Ended run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "run");
    return test::weft(std::move(arguments));
  }
};

TEST_P(SanitizedProgram, does_its_work_without_a_report) {
  const Ended ended =
      run({"--", path_of(GetParam()), "work", "hand_over", "refused", "unmapped", "child"});
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  EXPECT_EQ(ended.output, "did work\ndid hand_over\ndid refused\ndid unmapped\ndid child\n");
}

TEST_P(SanitizedProgram, does_its_work_over_frames) {
  const Ended ended = run({"--log", "error", "--faults", "delay=1us", "--", path_of(GetParam()),
                           "work", "hand_over", "unmapped"});
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  EXPECT_EQ(ended.output, "did work\ndid hand_over\ndid unmapped\n");
}

TEST_P(SanitizedProgram, starts_from_a_shell_that_sets_its_options) {
  const Ended ended = run({"--", "sh", "-c",
                           "ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=halt_on_error=1 " +
                               path_of(GetParam()) + " nothing && echo it started"});
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  EXPECT_EQ(ended.output, "it started\n");
}

TEST_P(SanitizedProgram, still_finds_what_is_wrong) {
  const Ended ended = run({"--", path_of(GetParam()), GetParam().fault});
  EXPECT_TRUE(ended.says(GetParam().report)) << ended.output;
}

INSTANTIATE_TEST_SUITE_P(Of, SanitizedProgram, testing::ValuesIn(kBuilds), [](const auto& one) {
  return std::string(one.param.compiler) + "_" + one.param.sanitizer;
});

TEST(Valgrind, sees_no_fault_where_memory_that_is_not_there_is_refused) {
  const Ended ended = test::weft({"run", "--", "valgrind", "-q", "--error-exitcode=5",
                                  WEFT_BIN_DIR "/verbs_client", "refused", "work"});
  if (ended.exit_status() == 127) GTEST_SKIP() << ended.output;
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  EXPECT_EQ(ended.output, "did refused\ndid work\n");
}

TEST(Valgrind, lets_memory_that_went_away_be_an_error_of_the_request) {
  const Ended ended =
      test::weft({"run", "--", "valgrind", "-q", WEFT_BIN_DIR "/verbs_client", "unmapped"});
  if (ended.exit_status() == 127) GTEST_SKIP() << ended.output;
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  EXPECT_TRUE(ended.says("did unmapped")) << ended.output;
}

}  // namespace
}  // namespace weft

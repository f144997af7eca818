// What `weft run` costs before the program begins and after it has ended.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "support/run_weft.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

/// The quickest of several: what others do on the machine is not ours.
double quickest_ms(const std::vector<std::string>& command) {
  constexpr int kTimes = 20;
  double best = 1e9;
  for (int i = 0; i < kTimes; ++i) {
    const auto begun = Clock::now();
    EXPECT_EQ(test::Started(command).wait().exit_status(), 0);
    best = std::min(best, std::chrono::duration<double, std::milli>(Clock::now() - begun).count());
  }
  return best;
}

TEST(RunStartup, costs_less_than_20_ms) {
  const double plain = quickest_ms({"/bin/true"});
  const double with_weft = quickest_ms(test::weft_command({"run", "--", "/bin/true"}));
  RecordProperty("start_up_us", static_cast<int>((with_weft - plain) * 1000));
  EXPECT_LT(with_weft - plain, 20.0);
}

}  // namespace
}  // namespace weft

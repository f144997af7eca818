#include <gtest/gtest.h>

#include "weft/channel_settings.h"

namespace weft::channel::test {
namespace {

std::string complaint(const Settings& settings) {
  const auto result = check(settings);
  return result ? "" : result.error().message;
}

TEST(SettingsTest, the_defaults_are_in_range_and_warn_of_nothing) {
  // A2: small in 500 to 800, large in 5,000 to 20,000.
  const Settings settings;
  ASSERT_TRUE(check(settings));
  EXPECT_EQ(*check(settings), "");
  EXPECT_GE(settings.phases[0].payload_bytes, 500u);
  EXPECT_LE(settings.phases[0].payload_bytes, 800u);
  EXPECT_GE(settings.phases[1].payload_bytes, 5000u);
  EXPECT_LE(settings.phases[1].payload_bytes, 20000u);
  EXPECT_TRUE(check(Settings::tiny()));
  EXPECT_TRUE(check(Settings::fixed()));
}

TEST(SettingsTest, sizes_outside_their_range_are_refused_and_the_range_is_named) {
  // A2: small 100 to 2,000, large 1,000 to 200,000.
  Settings settings;
  settings.phases = {{99, 4}, {5000, 4}};
  EXPECT_NE(complaint(settings).find("100 to 2000"), std::string::npos);
  settings.phases = {{2001, 4}, {5000, 4}};
  EXPECT_NE(complaint(settings).find("100 to 2000"), std::string::npos);
  settings.phases = {{500, 4}, {200001, 4}};
  EXPECT_NE(complaint(settings).find("1000 to 200000"), std::string::npos);
  settings.phases = {{500, 1}, {5000, 4}};
  EXPECT_NE(complaint(settings).find("2 to 256"), std::string::npos);
}

TEST(SettingsTest, each_phase_exceeds_the_last) {
  // A2
  Settings settings;
  settings.phases = {{1500, 4}, {1500, 4}};
  EXPECT_NE(complaint(settings).find("does not exceed"), std::string::npos);
}

TEST(SettingsTest, a_ratio_below_ten_warns) {
  // A2
  Settings settings;
  settings.phases = {{1000, 4}, {9999, 4}};
  ASSERT_TRUE(check(settings));
  EXPECT_NE(check(settings)->find("less than 10 times"), std::string::npos);
  settings.phases = {{1000, 4}, {10000, 4}};
  EXPECT_EQ(*check(settings), "");
  settings.phases = {{1000, 4}, {2000, 4}, {20000, 4}, {30000, 4}};  // each of them is named
  EXPECT_NE(check(settings)->find("phases[1]"), std::string::npos);
  EXPECT_EQ(check(settings)->find("phases[2]"), std::string::npos);
  EXPECT_NE(check(settings)->find("phases[3]"), std::string::npos);
}

TEST(SettingsTest, thresholds_are_a_share_of_80_to_100_or_at_most_the_size) {
  // A3
  Settings settings;
  settings.threshold_percent = 79;
  EXPECT_NE(complaint(settings).find("80 to 100"), std::string::npos);
  settings = {};
  settings.threshold_bytes = 513;
  EXPECT_NE(complaint(settings).find("0 to 512"), std::string::npos);
}

TEST(SettingsTest, other_values_have_ranges_too) {
  const auto refused = [](auto change) {
    Settings settings;
    change(settings);
    return !complaint(settings).empty();
  };
  EXPECT_TRUE(refused([](Settings& s) { s.phases.clear(); }));
  EXPECT_TRUE(refused([](Settings& s) { s.start_phase = 2; }));
  EXPECT_TRUE(refused([](Settings& s) { s.control_repeats = 0; }));
  EXPECT_TRUE(refused([](Settings& s) { s.learn_after = 65; }));
  EXPECT_TRUE(refused([](Settings& s) { s.max_message_bytes = 1; }));
  EXPECT_TRUE(refused([](Settings& s) { s.acknowledgement_timeout_ns = 1; }));
  EXPECT_TRUE(refused([](Settings& s) { s.transfer.assign(3, Transfer::kEager); }));
  EXPECT_FALSE(refused([](Settings&) {}));
}

}  // namespace
}  // namespace weft::channel::test

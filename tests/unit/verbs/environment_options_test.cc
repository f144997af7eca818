// What the environment says about devices, and what is said about a wrong value.
#include "verbs/environment_options.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace weft::verbs {
namespace {

Result<DeviceOptions> under(const std::map<std::string, std::string>& variables,
                            const DeviceOptions& options = {}) {
  return with_environment(options, [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(EnvironmentOptions, leaves_the_programs_options_alone_without_variables) {
  DeviceOptions options{.path = PathPolicy::kFramed, .pcap = "a", .faults = "loss=1%"};
  options.faults_seed = 3;
  for (const auto& variables :
       {std::map<std::string, std::string>{},
        {{"WEFT_PATH", ""}, {"WEFT_PCAP", ""}, {"WEFT_FAULTS", ""}, {"WEFT_FAULTS_SEED", ""}}}) {
    const auto out = under(variables, options);
    ASSERT_TRUE(out.has_value());
    EXPECT_EQ(out->path, PathPolicy::kFramed);
    EXPECT_EQ(out->pcap, "a");
    EXPECT_EQ(out->faults, "loss=1%");
    EXPECT_EQ(out->faults_seed, 3u);
  }
}

TEST(EnvironmentOptions, come_before_the_programs_options) {
  const auto out = under({{"WEFT_PATH", "auto"},
                          {"WEFT_PCAP", "b"},
                          {"WEFT_FAULTS", "dup=1%"},
                          {"WEFT_FAULTS_SEED", "18446744073709551615"}},
                         {.path = PathPolicy::kFramed, .pcap = "a", .faults = "loss=1%"});
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->path, PathPolicy::kAutomatic);
  EXPECT_EQ(out->pcap, "b");
  EXPECT_EQ(out->faults, "dup=1%");
  EXPECT_EQ(out->faults_seed, ~std::uint64_t{0});
  EXPECT_EQ(under({{"WEFT_PATH", "framed"}})->path, PathPolicy::kFramed);
}

TEST(EnvironmentOptions, say_what_becomes_of_raw_packets_that_nobody_claimed) {
  const DeviceOptions drops{.raw_unclaimed = RawUnclaimed::kDrop};
  EXPECT_EQ(under({}, drops)->raw_unclaimed, RawUnclaimed::kDrop);
  EXPECT_EQ(under({{"WEFT_RAW_UNCLAIMED", "kernel"}}, drops)->raw_unclaimed, RawUnclaimed::kKernel);
  EXPECT_EQ(under({{"WEFT_RAW_UNCLAIMED", "drop"}})->raw_unclaimed, RawUnclaimed::kDrop);
  const auto wrong = under({{"WEFT_RAW_UNCLAIMED", "lose"}});
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("kernel or drop"), std::string::npos);
}

TEST(EnvironmentOptions, ask_for_frames_by_each_of_three) {
  EXPECT_FALSE(wants_frames(*under({})));
  EXPECT_FALSE(wants_frames(*under({{"WEFT_PATH", "auto"}, {"WEFT_FAULTS_SEED", "1"}})));
  EXPECT_TRUE(wants_frames(*under({{"WEFT_PATH", "framed"}})));
  EXPECT_TRUE(wants_frames(*under({{"WEFT_PCAP", "x"}})));
  EXPECT_TRUE(wants_frames(*under({{"WEFT_PATH", "auto"}, {"WEFT_FAULTS", "loss=1%"}})));
}

TEST(EnvironmentOptions, name_variable_value_and_what_is_allowed_when_wrong) {
  struct Wrong {
    std::string name, value, allowed;
  };
  for (const auto& [name, value, allowed] :
       {Wrong{"WEFT_PATH", "fast", "framed or auto"},
        Wrong{"WEFT_PATH", "Framed", "framed or auto"}, Wrong{"WEFT_FAULTS", "loss=5", "loss=1%"},
        Wrong{"WEFT_FAULTS", "loss=1%,lag=2ms", "loss, dup, reorder, corrupt, mark, delay, rate"},
        Wrong{"WEFT_FAULTS_SEED", "x7", "a number"}, Wrong{"WEFT_FAULTS_SEED", "-7", "a number"},
        Wrong{"WEFT_FAULTS_SEED", "7.", "a number"},
        Wrong{"WEFT_FAULTS_SEED", "18446744073709551616", "a number"}}) {
    const auto out = under({{name, value}});
    ASSERT_FALSE(out.has_value()) << name << "=" << value;
    EXPECT_EQ(out.error().code, Errc::kInvalidArgument);
    EXPECT_EQ(out.error().message.find(name + "=" + value + ": "), 0u) << out.error().message;
    EXPECT_NE(out.error().message.find(allowed), std::string::npos) << out.error().message;
  }
}

}  // namespace
}  // namespace weft::verbs

// How faults are written down, and what is said about mistakes.
#include "port/fault_spec.h"

#include <gtest/gtest.h>

#include <string>

namespace weft::port {
namespace {

TEST(FaultSpec, reads_every_item_in_any_order) {
  FaultSpec all;
  all.loss_ppm = 10'000;
  all.duplicate_ppm = 1'000;
  all.reorder_ppm = 20'000;
  all.corrupt_ppm = 50;
  all.least_delay_ns = 50'000;
  all.most_delay_ns = 200'000;
  all.rate_bits = 1'000'000'000;
  EXPECT_EQ(parse_faults("loss=1%,dup=0.1%,reorder=2%,corrupt=50ppm,delay=50us..200us,rate=1Gbit"),
            all);
  EXPECT_EQ(
      parse_faults("rate=1000Mbit,corrupt=0.005%,delay=0.05ms..200us,reorder=2%,dup=0.1%,loss=1%"),
      all);
}

TEST(FaultSpec, reads_each_unit) {
  const auto delay = [](std::string_view text) { return parse_faults(text)->most_delay_ns; };
  EXPECT_EQ(delay("delay=7ns"), 7u);
  EXPECT_EQ(delay("delay=7us"), 7'000u);
  EXPECT_EQ(delay("delay=1.5ms"), 1'500'000u);
  EXPECT_EQ(delay("delay=2s"), 2'000'000'000u);
  EXPECT_EQ(parse_faults("delay=7us")->least_delay_ns, 7'000u);
  const auto rate = [](std::string_view text) { return parse_faults(text)->rate_bits; };
  EXPECT_EQ(rate("rate=300bit"), 300u);
  EXPECT_EQ(rate("rate=64kbit"), 64'000u);
  EXPECT_EQ(rate("rate=2.5Gbit"), 2'500'000'000u);
  EXPECT_EQ(parse_faults("loss=100%")->loss_ppm, 1'000'000u);
  EXPECT_EQ(parse_faults("loss=0%")->loss_ppm, 0u);
  EXPECT_EQ(parse_faults("loss=1ppm")->loss_ppm, 1u);
}

TEST(FaultSpec, names_the_wrong_item_and_shows_a_right_one) {
  for (const std::string item : {"losss=1%",
                                 "loss",
                                 "loss=",
                                 "loss=1",
                                 "loss=101%",
                                 "loss=-1%",
                                 "loss=1%%",
                                 "loss=0.00001%",
                                 "loss=nan%",
                                 "loss=inf%",
                                 "delay=50",
                                 "delay=2us..1us",
                                 "delay=1us..",
                                 "delay=..1us",
                                 "delay=61s",
                                 "delay=1us...2us",
                                 "rate=0Gbit",
                                 "rate=1GB",
                                 "rate=1e99Gbit",
                                 "rate=1Gbit ",
                                 " dup=1%",
                                 "=1%",
                                 "reorder=1% 2%",
                                 "corrupt=0x1%",
                                 ""}) {
    const auto spec = parse_faults("dup=0.1%," + item);
    ASSERT_FALSE(spec.has_value()) << item;
    EXPECT_EQ(spec.error().code, Errc::kInvalidArgument);
    EXPECT_EQ(spec.error().message.find("\"" + item + "\": "), 0u) << spec.error().message;
    EXPECT_NE(spec.error().message.find("loss=1%,"), std::string::npos) << spec.error().message;
  }
}

TEST(FaultSpec, refuses_an_item_that_stands_there_twice) {
  const auto spec = parse_faults("loss=1%,dup=1%,loss=2%");
  ASSERT_FALSE(spec.has_value());
  EXPECT_EQ(spec.error().message.find("\"loss=2%\": "), 0u) << spec.error().message;
}

}  // namespace
}  // namespace weft::port

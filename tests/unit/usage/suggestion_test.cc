#include "usage/suggestion.h"

#include <gtest/gtest.h>

namespace weft::usage {
namespace {

const std::vector<std::string> kCommands{"run", "env", "sim", "demo", "bench", "help"};
const std::vector<std::string> kOptions{"--help", "--device", "--link-layer", "--explain",
                                        "--pcap", "--seed",   "--seeds"};

TEST(Suggestion, distance_counts_letters_that_differ) {
  EXPECT_EQ(distance("", ""), 0U);
  EXPECT_EQ(distance("run", "run"), 0U);
  EXPECT_EQ(distance("rn", "run"), 1U) << "one is missing";
  EXPECT_EQ(distance("ruun", "run"), 1U) << "one is too many";
  EXPECT_EQ(distance("ran", "run"), 1U) << "one is another";
  EXPECT_EQ(distance("rnu", "run"), 1U) << "two are swapped";
  EXPECT_EQ(distance("kitten", "sitting"), 3U);
  EXPECT_EQ(distance("", "run"), 3U);
}

TEST(Suggestion, the_closest_word_is_meant) {
  EXPECT_EQ(closest("rnu", kCommands), "run");
  EXPECT_EQ(closest("demoo", kCommands), "demo");
  EXPECT_EQ(closest("--devcie", kOptions), "--device");
  EXPECT_EQ(closest("--sed", kOptions), "--seed");
  EXPECT_EQ(closest("-pcap", kOptions), "--pcap");
}

TEST(Suggestion, the_beginning_of_one_word_is_as_good) {
  EXPECT_EQ(closest("--expl", kOptions), "--explain");
  EXPECT_EQ(closest("be", kCommands), "bench");
  EXPECT_EQ(closest("--link", kOptions), "--link-layer");
}

TEST(Suggestion, what_is_far_from_everything_suggests_nothing) {
  for (const char* word : {"frobnicate", "x", "", "--", "-z"}) {
    EXPECT_EQ(closest(word, kCommands), "") << word;
    EXPECT_EQ(did_you_mean(word, kCommands), "") << word;
  }
  EXPECT_EQ(closest(std::string(100'000, 'r'), kCommands), "");
}

TEST(Suggestion, is_one_question) {
  EXPECT_EQ(did_you_mean("rnu", kCommands), " Did you mean 'run'?");
}

}  // namespace
}  // namespace weft::usage

// B2.2: worlds whose traffic is reliable datagrams, under all faults: each message exactly once and
// in order, and what one queue pair suffers no other does. WEFT_SIM_RD_FIRST and WEFT_SIM_RD_SEEDS
// choose the worlds.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "worlds/world.h"

namespace weft::worlds {
namespace {

constexpr std::uint64_t kDatagramParts = 5;

std::uint64_t chosen(const char* variable, std::uint64_t otherwise) {
  const char* const given = std::getenv(variable);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

std::string text_of(const Failure& failure) {
  std::string text = failure.reason + "\n";
  for (const std::string& line : failure.last_lines) text += line + "\n";
  return text + "run it again with WEFT_SIM_RD_FIRST=" + std::to_string(failure.seed) +
         " WEFT_SIM_RD_SEEDS=1";
}

class DatagramSeeds : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Part, DatagramSeeds, testing::Range<std::uint64_t>(0, kDatagramParts));

TEST_P(DatagramSeeds, hold_every_check) {
  // B2.2
  const std::uint64_t first = chosen("WEFT_SIM_RD_FIRST", 1);
  const std::uint64_t end = first + chosen("WEFT_SIM_RD_SEEDS", 500);
  for (std::uint64_t seed = first + GetParam(); seed < end; seed += kDatagramParts) {
    World world(draw_reliable_datagrams(seed));
    const Outcome outcome = world.run();
    ASSERT_FALSE(outcome.failure.has_value()) << text_of(*outcome.failure);
  }
}

TEST(DatagramWorlds, run_the_same_way_for_the_same_seed) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    World first(draw_reliable_datagrams(seed)), second(draw_reliable_datagrams(seed));
    EXPECT_EQ(first.run().trace_hash, second.run().trace_hash) << "seed " << seed;
  }
}

TEST(DatagramWorlds, meet_faults_and_use_every_operation) {
  sim::Stats total;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    World world(draw_reliable_datagrams(seed));
    const Outcome outcome = world.run();
    ASSERT_FALSE(outcome.failure.has_value()) << text_of(*outcome.failure);
    total += outcome.stats;
  }
  EXPECT_GT(total.messages, 1000u);
  for (const std::uint64_t some : {total.writes, total.reads, total.atomics, total.refused,
                                   total.receiver_not_ready, total.lost, total.crashes}) {
    EXPECT_GT(some, 0u);
  }
}

TEST(DatagramWorlds, without_faults_lose_nothing) {
  sim::Stats total;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    World world(draw_reliable_datagrams(seed, Weather::kCalm));
    const Outcome outcome = world.run();
    ASSERT_FALSE(outcome.failure.has_value()) << text_of(*outcome.failure);
    total += outcome.stats;
  }
  EXPECT_GT(total.messages, 1000u);
}

}  // namespace
}  // namespace weft::worlds

// Many worlds, each decided by its seed: every check in src/sim has to hold in all of them. A
// failure prints the command that replays it. WEFT_SIM_SEEDS says how many worlds there are in all.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "worlds/world.h"

namespace weft::worlds {
namespace {

constexpr std::uint64_t kDefaultSeeds = 600;
constexpr std::uint64_t kParts = 6;

std::uint64_t seeds_in_all() {
  const char* given = std::getenv("WEFT_SIM_SEEDS");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : kDefaultSeeds;
}

std::string describe(const Failure& failure) {
  std::string text = failure.reason + "\n";
  for (const std::string& line : failure.last_lines) text += line + "\n";
  return text + "replay it with: weft sim --seed " + std::to_string(failure.seed) + " --trace";
}

/// Parts, so that several cores share the work.
class Seeds : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Part, Seeds, testing::Range<std::uint64_t>(0, kParts));

TEST_P(Seeds, hold_every_check) {
  // B1.1 B1.2 B1.4 B1.5 B1.8 B2.1 B2.3 B2.5 B2.6 B4.4 B4.5 B4.6 B4.8 B4.9 B4.10
  const std::uint64_t n = std::max<std::uint64_t>(1, seeds_in_all() / kParts);
  for (std::uint64_t i = 0; i < n; ++i) {
    World world(draw_scenario(1 + GetParam() * n + i));
    const Outcome outcome = world.run();
    ASSERT_FALSE(outcome.failure.has_value()) << describe(*outcome.failure);
  }
}

TEST(World, runs_the_same_way_for_the_same_seed) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    World first(draw_scenario(seed)), second(draw_scenario(seed)), other(draw_scenario(seed + 500));
    const std::uint64_t hash = first.run().trace_hash;
    EXPECT_EQ(hash, second.run().trace_hash) << "seed " << seed;
    EXPECT_NE(hash, other.run().trace_hash) << "the hash does not see the difference";
  }
}

/// What the worlds claim to do must really happen in them, or their checks show nothing.
TEST(Worlds, meet_every_fault_and_use_every_operation) {
  sim::Stats total;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    World world(draw_scenario(seed));
    const Outcome outcome = world.run();
    ASSERT_FALSE(outcome.failure.has_value()) << describe(*outcome.failure);
    total += outcome.stats;
  }
  for (const sim::StatsRow& row : sim::stats_table()) EXPECT_GT(total.*row.value, 0u) << row.name;
}

TEST(Worlds, of_many_nodes_live_through_a_storm) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    World world(draw_scenario(seed, 8, Weather::kStorm));
    const Outcome outcome = world.run();
    ASSERT_FALSE(outcome.failure.has_value()) << describe(*outcome.failure);
    EXPECT_GT(outcome.stats.crashes, 0u);
  }
}

TEST(Worlds, without_faults_lose_and_repeat_nothing) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    World world(draw_scenario(seed, {}, Weather::kCalm));
    const Outcome outcome = world.run();
    ASSERT_FALSE(outcome.failure.has_value()) << describe(*outcome.failure);
    EXPECT_EQ(outcome.stats.lost + outcome.stats.corrupted + outcome.stats.duplicated +
                  outcome.stats.crashes + outcome.stats.bad_checksums,
              0u);
    EXPECT_GT(outcome.stats.messages + outcome.stats.datagrams, 0u);
  }
}

}  // namespace
}  // namespace weft::worlds

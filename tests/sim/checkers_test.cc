// A checker that cannot fail checks nothing: here something goes wrong on purpose in a world that
// runs, and the world has to notice.
#include <gtest/gtest.h>

#include "worlds/world.h"

namespace weft::worlds {
namespace {

/// A world without faults whose first node has a program on it.
Scenario quiet_world(std::uint64_t seed) { return draw_scenario(seed, 2, Weather::kCalm); }

/// Runs it and interferes once, at the first instant at which `act` finds something to do.
template <class Act>
std::string reason_after(std::uint64_t seed, Act act) {
  World world(quiet_world(seed));
  world.start();
  bool acted = false;
  for (int steps = 0; steps < 200'000; ++steps) {
    if (!acted && steps > 20) acted = act(world);
    if (!world.step()) break;
  }
  EXPECT_TRUE(acted) << "there was nothing to interfere with";
  const Outcome outcome = world.finish();
  return outcome.failure ? outcome.failure->reason : "";
}

void controller_writes(Process& process, std::uint64_t ea, std::size_t n) {
  auto view = process.vmm.map(ea, n, memory::Intent::kWrite);
  ASSERT_TRUE(view.has_value());
  view->data[0] ^= std::byte{1};
  process.vmm.unmap(*view);
}

TEST(Checkers, notice_a_write_outside_every_grant) {
  const std::string reason = reason_after(2, [](World& world) {
    Process& process = world.node(0).process(0);
    controller_writes(process, process.words_ea - 8, 8);
    return true;
  });
  EXPECT_NE(reason.find("was not granted"), std::string::npos) << reason;
}

TEST(Checkers, notice_a_write_that_ends_one_byte_outside) {
  const std::string reason = reason_after(2, [](World& world) {
    Process& process = world.node(0).process(0);
    const std::uint64_t end = process.words_ea + 2 * Process::kWords * 8;
    controller_writes(process, end - 7, 8);
    return true;
  });
  EXPECT_NE(reason.find("was not granted"), std::string::npos) << reason;
}

TEST(Checkers, notice_a_byte_that_changed_behind_their_back) {
  const std::string reason = reason_after(2, [](World& world) {
    Process& process = world.node(0).process(0);
    const std::byte wrong{0x5A};
    std::byte before{};
    EXPECT_EQ(process.vmm.read(process.words_ea - 8, {&before, 1}), memory::Fault::kNone);
    const std::byte changed = before ^ wrong;
    EXPECT_EQ(process.vmm.write(process.words_ea - 8, {&changed, 1}), memory::Fault::kNone);
    return true;
  });
  EXPECT_NE(reason.find("never granted"), std::string::npos) << reason;
}

TEST(Checkers, notice_a_counter_that_lost_an_addition) {
  const std::string reason = reason_after(2, [](World& world) {
    Process& process = world.node(0).process(0);
    process.counters[0].posted(5);
    process.counters[0].succeeded(5, 1, world.stage().judge);
    return true;
  });
  EXPECT_NE(reason.find("it grew by"), std::string::npos) << reason;
}

/// Takes completions away from the program that waits for them, in a world whose programs poll
/// late.
TEST(Checkers, notice_a_completion_that_never_comes) {
  bool found = false;
  for (std::uint64_t seed = 1; seed < 40 && !found; ++seed) {
    Scenario scenario = quiet_world(seed);
    for (NodeSpec& node : scenario.nodes) node.poll_delay_ns = 20'000;
    World world(scenario);
    world.start();
    std::optional<Completion> stolen;
    while (world.step()) {
      for (std::uint32_t i = 0; i < 3 && !stolen; ++i) {
        stolen = world.node(0).completion_queue(0, i).poll();
      }
    }
    if (!stolen) continue;
    found = true;
    EXPECT_TRUE(world.finish().failure.has_value());
  }
  EXPECT_TRUE(found);
}

TEST(Checkers, notice_a_completion_that_comes_twice) {
  bool found = false;
  for (std::uint64_t seed = 1; seed < 40 && !found; ++seed) {
    Scenario scenario = quiet_world(seed);
    World world(scenario);
    world.start();
    for (int i = 0; i < 30; ++i) world.step();
    Node& node = world.node(0);
    const std::optional<Qpn> known = node.any_queue_pair(0);
    if (!known) continue;
    found = true;
    Completion again;
    again.wr_id = 1;
    again.qpn = *known;
    node.deliver(0, again);
    EXPECT_NE(world.finish().failure.value().reason.find("not outstanding"), std::string::npos);
  }
  EXPECT_TRUE(found);
}

TEST(Checkers, notice_a_frame_that_leaks) {
  World world(quiet_world(3));
  world.start();
  world.network().pool().take();
  while (world.step()) continue;
  EXPECT_NE(world.finish().failure.value().reason.find("leaked"), std::string::npos);
}

TEST(Checkers, notice_memory_that_is_held_for_ever) {
  const std::string reason = reason_after(4, [](World& world) {
    Process& process = world.node(0).process(0);
    EXPECT_TRUE(process.vmm.map(process.words_ea, 8, memory::Intent::kRead).has_value());
    return true;
  });
  EXPECT_NE(reason.find("still held"), std::string::npos) << reason;
}

/// Two nodes and one reliable connection between them.
Scenario one_link() {
  Scenario scenario;
  for (std::uint8_t i = 1; i <= 2; ++i) {
    NodeSpec node;
    node.cards.push_back({verbs::NodeKind::kHost, {Gid::ipv4(10, 0, 0, i)}, 1});
    scenario.nodes.push_back(std::move(node));
  }
  LinkSpec link;
  link.ends[1].node = 1;
  scenario.links.push_back(link);
  return scenario;
}

TEST(Checkers, are_content_with_one_link_on_a_good_network) {
  World world(one_link());
  EXPECT_FALSE(world.run().failure.has_value());
}

TEST(Checkers, notice_a_link_that_stands_still_and_name_its_queue_pairs) {
  Scenario scenario = one_link();
  scenario.links[0].attributes.timeout = 0;  // never asks again
  scenario.healed_at = 1'000;
  World world(scenario);
  world.start();
  for (int i = 0; i < 10; ++i) world.step();
  sim::Faults faults;
  faults.loss_ppm = 1'000'000;
  world.network().set_faults(faults);
  while (world.step()) continue;
  const Outcome outcome = world.finish();
  ASSERT_TRUE(outcome.failure.has_value());
  EXPECT_NE(outcome.failure->reason.find("stands still"), std::string::npos);
  EXPECT_NE(outcome.failure->reason.find("(RTS): "), std::string::npos) << outcome.failure->reason;
}

}  // namespace
}  // namespace weft::worlds

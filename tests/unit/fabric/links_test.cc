// Flits on links and through switches: cut-through, credits, acknowledgements, errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "base/random.h"
#include "support/fabric_kit.h"

namespace weft::test {
namespace {

TEST(Links, bring_a_frame_from_host_to_host_through_a_switch) {
  HostsAndSwitches net(1, 2, false, {});
  net.send(0, 1, 4);
  ASSERT_TRUE(net.run(1000));
  const auto arrivals = net.fabric->take_arrivals();
  ASSERT_EQ(arrivals.size(), 1u);
  EXPECT_EQ(arrivals[0].port, net.hosts[1]);
  // Two links of one tick each, cut through: the head takes 2 ticks, and three flits follow it.
  EXPECT_EQ(arrivals[0].when, 5u);
  EXPECT_EQ(net.fabric->frame(arrivals[0].frame).hops, 1);
  EXPECT_EQ(net.fabric->links().stats().flit_hops, 8u);
  EXPECT_TRUE(net.all_credits_are_home());
}

// B3.3
TEST(Links, lose_nothing_by_contention) {
  HostsAndSwitches net(2, 4, false, {}, {1, 1, 4, 0});
  for (int round = 0; round < 50; ++round) {
    for (std::uint32_t from = 0; from < 8; ++from) {
      if (from != 5) net.send(from, 5, static_cast<std::uint16_t>(1 + round % 9));
    }
  }
  ASSERT_TRUE(net.run(50'000));
  EXPECT_EQ(net.fabric->take_arrivals().size(), 350u);
  EXPECT_TRUE(net.fabric->take_drops().empty());
  EXPECT_TRUE(net.all_credits_are_home());
}

TEST(Links, keep_frames_of_one_source_in_order) {
  HostsAndSwitches net(3, 2, false, {}, {3, 2, 8, 0});
  for (std::uint16_t i = 0; i < 100; ++i) net.send(i % 2, 4, static_cast<std::uint16_t>(1 + i % 7));
  ASSERT_TRUE(net.run(50'000));
  std::array<std::uint64_t, 2> last{};
  for (const auto& arrival : net.fabric->take_arrivals()) {
    const auto& frame = net.fabric->frame(arrival.frame);
    auto& before = last[frame.cookie % 2];
    EXPECT_GE(frame.cookie + 1, before + 1);
    before = frame.cookie + 1;
  }
  EXPECT_EQ(last[0] + last[1], 99u + 100u);
}

// B3.11
TEST(Links, heal_bit_errors_so_that_every_frame_arrives_once_and_in_order) {
  for (const double rate : {0.001, 0.02, 0.2}) {
    LinkSettings settings;
    settings.seed = 7;
    HostsAndSwitches net(3, 2, false, settings, {5, 1, 16, rate});
    base::SeededRandom random(11);
    for (int i = 0; i < 400; ++i) {
      const auto from = static_cast<std::uint32_t>(random.below(2));
      net.send(from, 5, static_cast<std::uint16_t>(1 + random.below(12)));
    }
    ASSERT_TRUE(net.run(1'000'000)) << rate;
    std::array<std::uint64_t, 8> last{};
    const auto arrivals = net.fabric->take_arrivals();
    EXPECT_EQ(arrivals.size(), 400u);
    for (const auto& arrival : arrivals) {
      const auto& frame = net.fabric->frame(arrival.frame);
      auto& before = last[frame.from % 8];
      EXPECT_GT(frame.cookie + 1, before);
      before = frame.cookie + 1;
    }
    EXPECT_TRUE(net.all_credits_are_home());
    EXPECT_GT(net.fabric->links().stats().damaged, 0u);
    EXPECT_GT(net.fabric->links().stats().sent_again, 0u);
    EXPECT_TRUE(net.fabric->take_drops().empty());
  }
}

// B3.2
TEST(Links, bring_every_frame_once_and_in_order_whatever_the_seed_damages) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    base::SeededRandom random(seed);
    LinkSettings settings;
    settings.seed = seed;
    settings.lanes = static_cast<std::uint8_t>(1 + random.below(3));
    settings.ack_batch = static_cast<std::uint16_t>(1 + random.below(16));
    settings.credit_batch = static_cast<std::uint16_t>(1 + random.below(4));
    settings.whole_frames = random.below(2) != 0;
    LinkProfile link;
    link.latency = static_cast<std::uint32_t>(1 + random.below(40));
    link.ticks_per_flit = static_cast<std::uint16_t>(1 + random.below(3));
    link.depth = static_cast<std::uint16_t>(4 + random.below(20));
    link.error_rate = random.below(4) == 0 ? 0.3 : 0.02;
    HostsAndSwitches net(3, 2, false, settings, link);
    const std::uint64_t frames = 40;
    for (std::uint64_t i = 0; i < frames; ++i) {
      const auto from = static_cast<std::uint32_t>(random.below(6));
      const auto to = static_cast<std::uint32_t>((from + 1 + random.below(5)) % 6);
      net.send(from, to, static_cast<std::uint16_t>(1 + random.below(20)),
               static_cast<std::uint8_t>(random.below(settings.lanes)));
    }
    ASSERT_TRUE(net.fabric->run(10'000'000)) << seed;
    ASSERT_EQ(net.fabric->links().contradiction(), "") << seed;
    std::map<std::array<std::uint32_t, 3>, std::uint64_t> last;  // of source, destination and lane
    std::set<std::uint64_t> seen;
    for (const auto& arrival : net.fabric->take_arrivals()) {
      const auto& frame = net.fabric->frame(arrival.frame);
      ASSERT_TRUE(seen.insert(frame.cookie).second) << seed;
      auto& before = last[{frame.from, arrival.port, frame.lane}];
      ASSERT_GE(frame.cookie + 1, before + 1) << seed;
      before = frame.cookie + 1;
    }
    ASSERT_EQ(seen.size(), frames) << seed;
    ASSERT_TRUE(net.all_credits_are_home()) << seed;
  }
}

TEST(Links, rest_between_two_frames_when_told_so) {
  const auto time_of_two_frames = [](std::uint32_t turnaround) {
    LinkSettings settings;
    settings.turnaround = turnaround;
    HostsAndSwitches net(1, 3, false, settings);
    net.send(0, 2, 4);
    net.send(1, 2, 4);
    EXPECT_TRUE(net.run(1000));
    return net.fabric->take_arrivals().back().when;
  };
  EXPECT_EQ(time_of_two_frames(0), 5u + 4);
  EXPECT_EQ(time_of_two_frames(3), 5u + 3 + 4);
}

TEST(Links, take_a_frame_longer_than_every_buffer_across) {
  HostsAndSwitches net(3, 1, false, {}, {2, 1, 4, 0});
  net.send(0, 2, 500);
  ASSERT_TRUE(net.run(5'000));
  EXPECT_EQ(net.fabric->take_arrivals().size(), 1u);
}

TEST(Links, wait_for_room_for_a_whole_frame_when_told_so) {
  LinkSettings settings;
  settings.whole_frames = true;
  HostsAndSwitches net(2, 2, false, settings, {1, 1, 8, 0});
  for (int i = 0; i < 20; ++i) net.send(0, 2, 6), net.send(1, 2, 5), net.send(3, 2, 7);
  const PortIndex between = net.shape.port(net.nodes[0], 2);
  std::uint32_t fewest = 8;
  bool started_without_room = false;
  net.fabric->links().set_tap([&](Tick, PortIndex from, const fabric::Flit& flit) {
    if (from != between || !flit.is(fabric::kData)) return;
    const std::uint32_t credits = net.fabric->links().credits(between, 0);
    fewest = std::min(fewest, credits);
    const std::uint32_t flits = net.fabric->frame(flit.frame).flits;
    if (flit.is(fabric::kHead) && credits + 1 < flits) started_without_room = true;
  });
  ASSERT_TRUE(net.run(4000));
  EXPECT_EQ(net.fabric->take_arrivals().size(), 60u);
  EXPECT_FALSE(started_without_room);
  EXPECT_LT(fewest, 3u);  // there was contention
}

// B3.5
TEST(Switch, sends_one_frame_at_a_time_on_a_lane) {
  HostsAndSwitches net(1, 3, false, {});
  std::vector<fabric::FrameIndex> order;
  const PortIndex out = net.shape.port(net.nodes[0], 3 + 2);
  net.fabric->links().set_tap([&](Tick, PortIndex from, const fabric::Flit& flit) {
    if (from == out && flit.is(fabric::kData)) order.push_back(flit.frame);
  });
  const auto first = net.send(0, 2, 5);
  const auto second = net.send(1, 2, 5);
  ASSERT_TRUE(net.run(100));
  const std::vector<fabric::FrameIndex> expected{first,  first,  first,  first,  first,
                                                 second, second, second, second, second};
  EXPECT_EQ(order, expected);
}

TEST(Switch, drops_and_counts_what_it_has_no_route_for) {
  HostsAndSwitches net(1, 2, false, {}, {1, 1, 4, 0});
  net.send(0, 9, 30);
  net.send(0, 1, 3);
  ASSERT_TRUE(net.run(1000));
  const auto drops = net.fabric->take_drops();
  ASSERT_EQ(drops.size(), 1u);
  EXPECT_EQ(drops[0].why, fabric::Drop::kNoRoute);
  EXPECT_EQ(net.fabric->take_arrivals().size(), 1u);
  EXPECT_TRUE(net.all_credits_are_home());
}

TEST(Switch, drops_frames_that_loop_by_their_hop_limit) {
  HostsAndSwitches net(2, 1, false, {});
  net.fabric->forwarding().set_route(net.nodes[0], Lid(7), net.shape.port(net.nodes[0], 2));
  net.fabric->forwarding().set_route(net.nodes[1], Lid(7), net.shape.port(net.nodes[1], 1));
  net.send(0, 6, 2);
  ASSERT_TRUE(net.run(1000));
  const auto turned = net.fabric->take_drops();
  ASSERT_EQ(turned.size(), 1u);
  EXPECT_EQ(turned[0].why, fabric::Drop::kTurnsBack);

  HostsAndSwitches ring(3, 1, true, {});
  for (const NodeIndex node : ring.nodes) {
    ring.fabric->forwarding().set_route(node, Lid(7), ring.shape.port(node, 2));
  }
  ring.send(0, 6, 2);
  ASSERT_TRUE(ring.run(1000));
  const auto looped = ring.fabric->take_drops();
  ASSERT_EQ(looped.size(), 1u);
  EXPECT_EQ(looped[0].why, fabric::Drop::kHopLimit);
}

// B3.5
TEST(Switch, goes_by_a_table_for_each_input_port) {
  HostsAndSwitches net(1, 4, false, {});
  auto& forwarding = net.fabric->forwarding();
  for (const std::uint32_t host : {2u, 3u}) forwarding.set_lids(net.hosts[host], Lid(20), 0);
  const auto port = [&](std::uint32_t host) { return net.shape.port(net.nodes[0], 3 + host); };
  forwarding.set_route_from(port(0), Lid(20), port(2));
  forwarding.set_route_from(port(1), Lid(20), port(3));
  net.send(0, 19, 2);
  net.send(1, 19, 2);
  net.send(0, 1, 2);
  ASSERT_TRUE(net.run(100));
  std::vector<PortIndex> where;
  for (const auto& arrival : net.fabric->take_arrivals()) where.push_back(arrival.port);
  std::ranges::sort(where);
  EXPECT_EQ(where, (std::vector{net.hosts[1], net.hosts[2], net.hosts[3]}));
}

TEST(Endpoint, answers_to_every_lid_of_its_mask_and_to_no_other) {
  HostsAndSwitches net(1, 2, false, {});
  auto& forwarding = net.fabric->forwarding();
  forwarding.set_lids(net.hosts[1], Lid(8), 2);
  for (std::uint16_t lid = 8; lid < 13; ++lid) {
    forwarding.set_route(net.nodes[0], Lid(lid), net.shape.port(net.nodes[0], 4));
    net.send(0, lid - 1u, 1);
  }
  ASSERT_TRUE(net.run(100));
  EXPECT_EQ(net.fabric->take_arrivals().size(), 4u);
  const auto drops = net.fabric->take_drops();
  ASSERT_EQ(drops.size(), 1u);
  EXPECT_EQ(drops[0].why, fabric::Drop::kNotMine);
}

}  // namespace
}  // namespace weft::test

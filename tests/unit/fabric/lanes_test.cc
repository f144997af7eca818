// Virtual lanes: they avoid deadlock, relieve head-of-line blocking, and give quality of service.
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

#include "support/fabric_kit.h"

namespace weft::test {
namespace {

LinkSettings with_lanes(std::uint8_t lanes) {
  LinkSettings settings;
  settings.lanes = lanes;
  return settings;
}

/// Every host of a ring of six sends to the one half way round, always the same way.
void fill_ring(HostsAndSwitches& ring, bool second_lane) {
  for (int i = 0; i < 40; ++i) {
    for (std::uint32_t from = 0; from < 6; ++from) {
      const std::uint8_t lane = second_lane && from + 3 >= 6 ? 1 : 0;
      ring.send(from, (from + 3) % 6, 16, lane);
    }
  }
}

// B3.4
TEST(Lanes, one_locks_up_a_ring_of_six_switches_and_the_detector_shows_the_cycle) {
  HostsAndSwitches ring(6, 1, true, with_lanes(1), {1, 1, 4, 0});
  fill_ring(ring, false);
  std::vector<fabric::Blocked> cycle;
  for (int i = 0; i < 10'000 && cycle.empty(); ++i) {
    ring.fabric->step();
    ASSERT_EQ(ring.fabric->links().contradiction(), "");
    if (i % 64 == 63) cycle = ring.fabric->find_deadlock();
  }
  ASSERT_FALSE(cycle.empty());
  std::set<NodeIndex> switches;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const NodeIndex node = ring.shape.ports[cycle[i].port].node;
    const NodeIndex next = ring.shape.ports[cycle[(i + 1) % cycle.size()].port].node;
    // Each waits for a frame that owns the same output, or for the buffer of the next switch.
    EXPECT_TRUE(next == node || next == (node + 1) % 6) << node << " waits for " << next;
    EXPECT_EQ(cycle[i].lane, 0);
    switches.insert(node);
  }
  EXPECT_EQ(switches.size(), 6u);
}

// B3.4
TEST(Lanes, two_never_lock_up_a_ring_when_paths_across_one_link_take_the_second) {
  HostsAndSwitches ring(6, 1, true, with_lanes(2), {1, 1, 4, 0});
  fill_ring(ring, true);
  for (int i = 0; i < 100'000 && !ring.fabric->links().idle(); ++i) {
    ring.fabric->step();
    if (i % 64 == 63) {
      ASSERT_TRUE(ring.fabric->find_deadlock().empty());
    }
  }
  EXPECT_TRUE(ring.fabric->links().idle());
  EXPECT_EQ(ring.fabric->take_arrivals().size(), 240u);
}

/// Hosts 0 and 1 share a link; host 0's destination is overloaded by others, host 1's is free.
Tick time_past_a_blocked_frame(std::uint8_t victims_lane) {
  HostsAndSwitches net(2, 4, false, with_lanes(2), {1, 1, 4, 0});
  for (int i = 0; i < 20; ++i) {
    net.send(5, 4, 60);
    net.send(6, 4, 60);
    net.send(0, 4, 60);
  }
  for (int i = 0; i < 200; ++i) net.fabric->step();
  const Tick begun = net.fabric->now();
  const auto frame = net.send(1, 7, 4, victims_lane);
  for (int i = 0; i < 20'000; ++i) {
    net.fabric->step();
    for (const auto& arrival : net.fabric->take_arrivals()) {
      if (arrival.frame == frame) return arrival.when - begun;
    }
  }
  return 20'000;
}

// B3.4
TEST(Lanes, relieve_head_of_line_blocking) {
  EXPECT_GT(time_past_a_blocked_frame(0), 100u);
  EXPECT_LT(time_past_a_blocked_frame(1), 15u);
}

struct Shares {
  std::array<std::uint64_t, 3> flits{};
  Tick worst_wait = 0;
};

/// Three hosts, each on its lane, want a whole link for 6000 ticks.
Shares share_a_link(const fabric::ArbitrationTable* table, bool sparse_first = false) {
  HostsAndSwitches net(2, 3, false, with_lanes(4), {1, 1, 16, 0});
  const PortIndex between = net.shape.port(net.nodes[0], 2);
  net.fabric->links().set_arbitration(between, table);
  Shares shares;
  net.fabric->links().set_tap([&](Tick, PortIndex from, const fabric::Flit& flit) {
    if (from == between && flit.is(fabric::kData)) ++shares.flits[flit.lane];
  });
  for (Tick tick = 0; tick < 6000; ++tick) {
    for (std::uint8_t host = 0; host < 3; ++host) {
      const bool due = host == 0 && sparse_first ? tick % 50 == 0 : tick % 4 == 0;
      if (due) net.send(host, 3u + host, 4, host);
    }
    net.fabric->step();
    for (const auto& arrival : net.fabric->take_arrivals()) {
      const auto& frame = net.fabric->frame(arrival.frame);
      if (frame.lane == 0)
        shares.worst_wait = std::max(shares.worst_wait, arrival.when - frame.created);
      net.fabric->release(arrival.frame);
    }
  }
  return shares;
}

// B3.4
TEST(Lanes, share_a_link_by_the_weights_of_the_low_table) {
  fabric::ArbitrationTable table;
  table.low = {{0, 4}, {1, 2}, {2, 1}};
  const Shares shares = share_a_link(&table);
  const double all = static_cast<double>(shares.flits[0] + shares.flits[1] + shares.flits[2]);
  EXPECT_GT(all, 5900);
  EXPECT_NEAR(static_cast<double>(shares.flits[0]) / all, 4.0 / 7, 0.01);
  EXPECT_NEAR(static_cast<double>(shares.flits[1]) / all, 2.0 / 7, 0.01);
}

TEST(Lanes, take_turns_without_a_table) {
  const Shares shares = share_a_link(nullptr);
  EXPECT_NEAR(static_cast<double>(shares.flits[0]), static_cast<double>(shares.flits[2]), 40);
}

// B3.4
TEST(Lanes, keep_the_latency_of_the_high_one_under_full_load_of_the_others) {
  fabric::ArbitrationTable table;
  table.high = {{0, 8}};
  table.low = {{1, 1}, {2, 1}};
  const Shares first = share_a_link(&table, true);
  const Shares equal = share_a_link(nullptr, true);
  EXPECT_EQ(first.worst_wait, 3u + 3u);  // three links and three more flits: as in an empty fabric
  EXPECT_GT(equal.worst_wait, first.worst_wait);
}

// B3.4
TEST(Lanes, of_the_high_table_yield_when_their_limit_is_used_up) {
  fabric::ArbitrationTable table;
  table.high = {{0, 255}};
  table.low = {{1, 1}, {2, 1}};
  const Shares unlimited = share_a_link(&table);
  EXPECT_LT(unlimited.flits[1], 50u);
  table.limit_of_high = 0;  // a single flit
  const Shares limited = share_a_link(&table);
  EXPECT_NEAR(static_cast<double>(limited.flits[0]), 3000, 60);
  EXPECT_NEAR(static_cast<double>(limited.flits[1]), 1500, 60);
}

// B3.4
TEST(Lanes, change_at_a_switch_only_where_a_table_says_so) {
  HostsAndSwitches net(2, 1, false, with_lanes(2));
  const PortIndex in = net.shape.port(net.nodes[0], 3), out = net.shape.port(net.nodes[0], 2);
  net.fabric->forwarding().set_lane(in, out, 5, 1);
  std::vector<std::uint8_t> lanes;
  net.fabric->links().set_tap([&](Tick, PortIndex, const fabric::Flit& flit) {
    if (flit.is(fabric::kData)) lanes.push_back(flit.lane);
  });
  fabric::Sending what;
  what.from = net.hosts[0];
  what.destination = HostsAndSwitches::lid(1);
  net.fabric->send(what);
  ASSERT_TRUE(net.run(100));
  what.service_level = 5;
  net.fabric->send(what);
  ASSERT_TRUE(net.run(100));
  EXPECT_EQ(lanes, (std::vector<std::uint8_t>{0, 0, 0, 0, 1, 1}));
}

}  // namespace
}  // namespace weft::test

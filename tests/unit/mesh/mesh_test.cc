// Channels over reliable datagrams: how a pair begins with its first message, grows with its
// traffic and goes back to nothing.
#include <algorithm>
#include <thread>

#include "mesh_suite.h"

namespace weft::test {
namespace {

using mesh::State;

class Meshes : public MeshSuite {};
INSTANTIATE_TEST_SUITE_P(Over, Meshes, testing::ValuesIn(datagram_ways()), way_name);

constexpr std::size_t kSmall = 8'000;  // more than the first rings of both directions take

TEST_P(Meshes, a_peer_that_never_spoke_costs_an_entry_and_its_first_message_small_rings) {
  Side &one = open_mesh(), &other = open_mesh();
  const mesh::Peer there = peer(one, other);
  EXPECT_EQ(one.mesh.figures().registered_bytes, 0u);
  EXPECT_EQ(one.mesh.statistics(there).state, State::kIdle);
  ASSERT_TRUE(send(one, there, "hello"));
  ASSERT_TRUE(comes([&] { return other.got.size() == 1; }));
  EXPECT_EQ(other.got[0].second, "hello");
  const mesh::Peer back = other.got[0].first;
  EXPECT_EQ(other.mesh.address_of(back), one.mesh.address());
  ASSERT_TRUE(send(other, back, "and back"));
  ASSERT_TRUE(comes([&] { return one.got.size() == 1; }));
  EXPECT_EQ(one.got[0].first, there);
  EXPECT_EQ(one.got[0].second, "and back");
  for (const Side* side : {&one, &other}) {
    EXPECT_EQ(side->mesh.figures().open, 1u);
    EXPECT_GT(side->mesh.figures().registered_bytes, 0u);
    EXPECT_LT(side->mesh.figures().registered_bytes, kSmall);
  }
}

TEST_P(Meshes, messages_come_whole_in_order_and_once) {
  Side &one = open_mesh(), &other = open_mesh();
  const mesh::Peer there = peer(one, other);
  constexpr int kMessages = 500;
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(
        send(one, there, std::to_string(i) + std::string(static_cast<std::size_t>(i), 'x')));
  }
  ASSERT_TRUE(comes([&] { return other.got.size() == kMessages; }));
  for (int i = 0; i < kMessages; ++i) {
    EXPECT_EQ(other.got[static_cast<std::size_t>(i)].second,
              std::to_string(i) + std::string(static_cast<std::size_t>(i), 'x'));
  }
}

TEST_P(Meshes, rings_grow_under_traffic_that_needs_it_and_are_given_back) {
  mesh::Options options;
  options.settings.shrink_after_ns = 20'000'000;
  Side &one = open_mesh(options), &other = open_mesh(options);
  const mesh::Peer there = peer(one, other);
  ASSERT_TRUE(send(one, there, "small"));
  ASSERT_TRUE(comes([&] { return other.got.size() == 1; }));
  const mesh::Peer back = other.got[0].first;
  EXPECT_EQ(one.mesh.statistics(there).send_phase, 0u);
  EXPECT_EQ(other.mesh.statistics(back).receive_phase, 0u);
  ASSERT_TRUE(send(one, there, std::string(10'000, 'l')));
  ASSERT_TRUE(comes([&] { return other.got.size() == 2; }));
  EXPECT_EQ(other.got[1].second, std::string(10'000, 'l'));
  EXPECT_EQ(one.mesh.statistics(there).send_phase, 1u);
  EXPECT_EQ(other.mesh.statistics(back).receive_phase, 1u);
  EXPECT_GE(other.mesh.statistics(back).registered_bytes, 4u * 16'384);
  ASSERT_TRUE(comes([&] {
    return one.mesh.statistics(there).send_phase == 0 &&
           other.mesh.figures().registered_bytes < kSmall &&
           one.mesh.figures().registered_bytes < kSmall;
  }));
  EXPECT_EQ(one.mesh.statistics(there).shrinks, 1u);
}

TEST_P(Meshes, what_is_larger_than_any_ring_is_read_where_it_is) {
  Side &one = open_mesh(), &other = open_mesh();
  const mesh::Peer there = peer(one, other);
  std::string large(300'000, '?');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7);
  ASSERT_TRUE(send(one, there, large));
  ASSERT_TRUE(comes([&] { return other.got.size() == 1; }));
  EXPECT_EQ(other.got[0].second, large);
}

TEST_P(Meshes, a_peer_that_is_silent_goes_back_to_an_entry_and_may_speak_again) {
  mesh::Options options;
  options.idle_ns = 30'000'000;
  Side &one = open_mesh(options), &other = open_mesh(options);
  const mesh::Peer there = peer(one, other);
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(send(one, there, "again"));
    ASSERT_TRUE(comes([&] { return other.got.size() == static_cast<std::size_t>(i); }));
    ASSERT_TRUE(comes([&] {
      return one.mesh.figures().registered_bytes == 0 && other.mesh.figures().registered_bytes == 0;
    }));
    EXPECT_EQ(one.mesh.figures().open, 0u);
    EXPECT_EQ(other.mesh.figures().open, 0u);
    EXPECT_EQ(one.mesh.statistics(there).state, State::kIdle);
  }
  EXPECT_EQ(one.mesh.figures().peers, 1u);
  EXPECT_EQ(one.closed.size() + other.closed.size(), 0u);
  EXPECT_EQ(one.mesh.figures().lost + other.mesh.figures().lost, 0u);
}

TEST_P(Meshes, both_may_begin_at_once) {
  mesh::Options options;
  options.idle_ns = 5'000'000;  // so that they also part at once, now and then
  Side &one = open_mesh(options), &other = open_mesh(options);
  const mesh::Peer there = peer(one, other), here = peer(other, one);
  constexpr std::size_t kTimes = 20;
  for (std::size_t i = 1; i <= kTimes; ++i) {
    const std::byte word[1]{};
    std::size_t taken = 0, returned = 0;
    ASSERT_TRUE(comes([&] {
      if (taken == 0) taken = must(one.mesh.try_send(there, word));
      if (returned == 0) returned = must(other.mesh.try_send(here, word));
      return taken == 1 && returned == 1 && one.got.size() == i && other.got.size() == i;
    })) << i;
    if (i % 4 == 0) {
      ASSERT_TRUE(comes([&] { return one.mesh.figures().open + other.mesh.figures().open == 0; }));
    }
  }
  EXPECT_EQ(one.closed.size() + other.closed.size(), 0u);
}

TEST_P(Meshes, who_closes_delivers_first_and_the_peer_is_told) {
  if (GetParam().wire == Wire::kPipe) GTEST_SKIP() << "nobody sleeps there";
  Side &one = open_mesh(), &other = open_mesh();
  const mesh::Peer there = peer(one, other);
  ASSERT_TRUE(send(one, there, "last"));
  Result<void> closed;
  std::thread closer([&] { closed = one.mesh.close(there, mesh::in(kMeshPatience)); });
  ASSERT_TRUE(comes([&] { return !other.closed.empty(); }, {&other}));
  closer.join();
  EXPECT_TRUE(closed.has_value());
  ASSERT_EQ(other.got.size(), 1u) << other.closed[0].why;
  EXPECT_EQ(other.got[0].second, "last");
  EXPECT_NE(other.closed[0].why.find("closed"), std::string::npos) << other.closed[0].why;
  ASSERT_TRUE(comes([&] {
    return one.mesh.figures().registered_bytes + other.mesh.figures().registered_bytes == 0;
  }));
  ASSERT_TRUE(send(one, there, "once more"));
  ASSERT_TRUE(comes([&] { return other.got.size() == 2; }));
}

TEST_P(Meshes, who_closes_does_not_wait_for_ever_for_a_peer_that_takes_nothing) {
  Side &one = open_mesh(), &other = open_mesh();
  const mesh::Peer there = peer(one, other);
  ASSERT_TRUE(send(one, there, "taken"));
  ASSERT_TRUE(comes([&] { return other.got.size() == 1; }));
  std::size_t taken = 0;
  ASSERT_TRUE(comes(
      [&] {
        taken = must(one.mesh.try_send(there, std::as_bytes(std::span("left"))));
        return taken > 0;
      },
      {&one}));
  const auto closed = one.mesh.close(mesh::in(std::chrono::milliseconds(20)));
  ASSERT_FALSE(closed.has_value());
  EXPECT_EQ(closed.error().code, Errc::kTimedOut);
  EXPECT_EQ(one.mesh.statistics(there).state, State::kIdle);
  ASSERT_TRUE(comes([&] { return !other.closed.empty(); }));
}

TEST_P(Meshes, many_talk_to_all_others) {
  constexpr std::size_t kMeshes = 12;
  mesh::Options options;
  options.notices = 256;
  options.lane_depth = 64;
  options.lanes = 2;
  for (std::size_t i = 0; i < kMeshes; ++i) open_mesh(options);
  struct Pending {
    Side* from;
    mesh::Peer to;
    std::string text;
  };
  std::vector<Pending> pending;
  for (const auto& from : sides) {
    for (const auto& to : sides) {
      if (from != to) pending.push_back({from.get(), peer(*from, *to), "to all"});
    }
  }
  ASSERT_TRUE(comes([&] {
    std::erase_if(pending, [](const Pending& one) {
      const auto bytes = std::as_bytes(std::span(one.text.data(), one.text.size()));
      return must(one.from->mesh.try_send(one.to, bytes)) > 0;
    });
    return pending.empty();
  }));
  ASSERT_TRUE(comes([&] {
    return std::all_of(sides.begin(), sides.end(),
                       [](const auto& side) { return side->got.size() == kMeshes - 1; });
  }));
}

}  // namespace
}  // namespace weft::test

// Where a mesh has limits: peers that are not there, memory that is not there, views that are kept,
// and calls that make no sense.
#include <algorithm>
#include <thread>

#include "mesh_suite.h"

namespace weft::test {
namespace {

using mesh::State;

class MeshLimits : public MeshSuite {
 protected:
  static std::span<const std::byte> word() { return std::as_bytes(std::span("word")); }
};
INSTANTIATE_TEST_SUITE_P(Over, MeshLimits, testing::ValuesIn(datagram_ways()), way_name);

TEST_P(MeshLimits, peers_that_are_not_there_are_reported_and_hold_up_nobody) {
  mesh::Options options;
  options.timeout = 12;
  options.retry_count = 2;
  options.lanes = 1;
  Side &one = open_mesh(options), &other = open_mesh(options);
  const mesh::Peer there = peer(one, other);
  ASSERT_TRUE(send(one, there, "first"));
  std::vector<mesh::Peer> nobody;
  for (std::uint8_t i = 1; i <= 20; ++i) {
    mesh::Address address = other.mesh.address();
    address.gid.raw[12] = 127, address.gid.raw[14] ^= 0x55, address.gid.raw[15] = i;
    nobody.push_back(must(one.mesh.peer(address)));
    EXPECT_EQ(must(one.mesh.try_send(nobody.back(), word())), 0u);
  }
  ASSERT_TRUE(send(one, there, "second"));
  ASSERT_TRUE(comes([&] { return other.got.size() == 2 && one.closed.size() == nobody.size(); }));
  for (const mesh::Closed& closed : one.closed) {
    EXPECT_NE(std::find(nobody.begin(), nobody.end(), closed.peer), nobody.end());
    EXPECT_NE(closed.why.find("gone"), std::string::npos) << closed.why;
  }
  EXPECT_EQ(one.mesh.statistics(there).state, State::kOpen);
  EXPECT_EQ(one.mesh.figures().open, 1u);
  EXPECT_EQ(one.mesh.figures().lost, nobody.size());
}

TEST_P(MeshLimits, a_peer_that_dies_is_told_before_anything_is_sent_to_it_again) {
  mesh::Options options;
  options.timeout = 12;
  options.retry_count = 2;
  Side &one = open_mesh(options), &other = open_mesh(options), &third = open_mesh(options);
  const mesh::Peer there = peer(one, other), elsewhere = peer(one, third);
  ASSERT_TRUE(send(one, there, "first"));
  ASSERT_TRUE(send(one, elsewhere, "first"));
  ASSERT_TRUE(comes([&] { return other.got.size() == 1 && third.got.size() == 1; }));
  sides.erase(sides.begin() + 1);
  for (;;) {
    const auto taken = one.mesh.try_send(there, word());
    if (taken) continue;
    EXPECT_EQ(taken.error().code, Errc::kInvalidState);
    break;
  }
  const auto closed = one.mesh.take_closed();
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_EQ(closed[0].peer, there);
  EXPECT_TRUE(one.mesh.try_send(there, word()));
  ASSERT_TRUE(send(one, elsewhere, "second"));
  ASSERT_TRUE(comes([&] { return third.got.size() == 2; }));
}

TEST_P(MeshLimits, who_finds_no_memory_waits_until_others_have_parted) {
  mesh::Options poor;
  poor.idle_ns = 20'000'000;
  poor.budget_bytes = 6'000;
  Side &one = open_mesh(poor), &other = open_mesh(), &third = open_mesh();
  for (Side* side : {&other, &third, &other}) {
    ASSERT_TRUE(send(one, peer(one, *side), "to each in turn"));
    EXPECT_LE(one.mesh.figures().registered_bytes, poor.budget_bytes);
  }
  ASSERT_TRUE(comes([&] { return other.got.size() == 2 && third.got.size() == 1; }));
}

TEST_P(MeshLimits, a_receiver_without_memory_for_larger_rings_gets_the_message_in_pieces) {
  mesh::Options poor;
  poor.budget_bytes = 30'000;
  Side &one = open_mesh(), &other = open_mesh(poor);
  const std::string text(10'000, 'p');
  ASSERT_TRUE(send(one, peer(one, other), text));
  ASSERT_TRUE(comes([&] { return other.got.size() == 1; }));
  EXPECT_EQ(other.got[0].second, text);
  EXPECT_EQ(one.mesh.statistics(peer(one, other)).send_phase, 0u);
  EXPECT_GE(one.mesh.statistics(peer(one, other)).refusals, 1u);
}

TEST_P(MeshLimits, a_view_that_is_kept_outlives_its_peer) {
  Side &one = open_mesh(), &other = open_mesh();
  ASSERT_TRUE(send(one, peer(one, other), "kept"));
  std::optional<mesh::Message> kept;
  ASSERT_TRUE(comes([&] { return (kept = other.mesh.try_receive()).has_value(); }, {&one}));
  const auto closed = one.mesh.close(mesh::in(std::chrono::milliseconds(1)));
  EXPECT_FALSE(closed.has_value());  // the view holds its slot
  ASSERT_TRUE(comes([&] { return other.closed.size() == 1; }));
  EXPECT_EQ(kept->text(), "kept");
  EXPECT_GT(other.mesh.figures().registered_bytes, 0u);
  kept.reset();
  ASSERT_TRUE(comes([&] { return other.mesh.figures().registered_bytes == 0; }));
}

TEST_P(MeshLimits, calls_that_make_no_sense_are_refused_by_name) {
  mesh::Options options;
  options.max_peers = 1;
  Side &one = open_mesh(options), &other = open_mesh();
  EXPECT_EQ(one.mesh.peer(one.mesh.address()).error().code, Errc::kInvalidArgument);
  const mesh::Peer there = peer(one, other);
  EXPECT_EQ(peer(one, other), there);
  mesh::Address more = other.mesh.address();
  more.qpn = Qpn(more.qpn.value ^ 1);
  EXPECT_EQ(one.mesh.peer(more).error().code, Errc::kOutOfMemory);
  more.qpn = Qpn(kMask24 + 1);
  EXPECT_EQ(one.mesh.peer(more).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(one.mesh.try_send(mesh::Peer(7), word()).error().code, Errc::kNotFound);
  EXPECT_EQ(one.mesh.try_send(there, {}).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(one.mesh.statistics(mesh::Peer(7)).state, State::kIdle);
  const auto refused = [&](auto&& change) {
    mesh::Options wrong;
    change(wrong);
    return mesh::Mesh::open(a.device, wrong).error().message;
  };
  EXPECT_EQ(refused([](auto& o) { o.lanes = 0; }), "options.lanes: 0 is outside 1 to 64");
  EXPECT_NE(refused([](auto& o) { o.lane_depth = 1; }).find("lane_depth"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.notices = 1; }).find("notices"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.max_peers = 0; }).find("max_peers"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.idle_ns = 0; }).find("idle_ns"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.greeting_timeout_ns = 0; }).find("greeting"),
            std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.settings.phases.clear(); }).find("phases"), std::string::npos);
}

TEST_P(MeshLimits, waiting_ends_with_a_message_and_with_the_deadline) {
  if (GetParam().wire == Wire::kPipe) GTEST_SKIP() << "nobody sleeps there";
  Side &one = open_mesh(), &other = open_mesh();
  EXPECT_EQ(one.mesh.receive(mesh::in(std::chrono::milliseconds(1))).error().code, Errc::kTimedOut);
  const mesh::Peer there = peer(one, other);
  std::thread answers([&] {
    auto message = other.mesh.receive(mesh::in(kMeshPatience));
    if (message) {
      static_cast<void>(other.mesh.send(message->from(), "answer", mesh::in(kMeshPatience)));
    }
  });
  EXPECT_TRUE(one.mesh.send(there, "question", mesh::in(kMeshPatience)));
  const auto got = one.mesh.receive(mesh::in(kMeshPatience));
  answers.join();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->text(), "answer");
}

}  // namespace
}  // namespace weft::test

#include "verbs/multicast.h"

#include <gtest/gtest.h>

#include <map>

namespace weft::verbs {
namespace {

const Gid kGroup = Gid::ipv4(239, 1, 2, 3), kOtherGroup = Gid::ipv4(239, 1, 2, 4);

/// Counts who listens to which group.
class ListeningPort final : public port::Port, public port::PortControl {
 public:
  Gid address() const override { return Gid::ipv4(192, 0, 2, 1); }
  Mtu max_mtu() const override { return Mtu::k1024; }
  port::SendOutcome send(std::span<const port::Outgoing> frames) override {
    return {port::SendStatus::kTaken, frames.size()};
  }
  std::size_t receive(port::Receiver&, std::size_t) override { return 0; }
  Result<void> join(const Gid& group) override {
    if (refuses) return fail(Errc::kOutOfMemory, "group: refused");
    ++listeners[group];
    return {};
  }
  void leave(const Gid& group) override { --listeners[group]; }
  void report_all_headers() override {}
  port::LinkState link_state() const override { return port::LinkState::kUp; }
  network::Flow flow_on_wire(const network::Flow& flow) override { return flow; }
  port::PortControl* control() override { return this; }

  bool refuses = false;
  std::map<Gid, int> listeners;
};

queue::QueuePair& datagram(queue::QueuePair& qp, std::uint32_t number) {
  qp.service = Service::kUnreliableDatagram;
  qp.qpn = Qpn(number);
  return qp;
}

struct Groups {
  MulticastMembers members;
  ListeningPort wire;
  queue::QueuePair first, second;

  Groups() {
    datagram(first, 5);
    datagram(second, 6);
  }
};

TEST(Multicast, members_are_those_that_joined_and_did_not_leave) {
  Groups groups;
  ASSERT_TRUE(groups.members.join(groups.first, kGroup, nullptr));
  ASSERT_TRUE(groups.members.join(groups.second, kGroup, nullptr));
  ASSERT_TRUE(groups.members.join(groups.first, kOtherGroup, nullptr));
  EXPECT_EQ(groups.members.of(kGroup), (std::vector{Qpn(5), Qpn(6)}));
  ASSERT_TRUE(groups.members.leave(groups.first, kGroup));
  EXPECT_EQ(groups.members.of(kGroup), std::vector{Qpn(6)});
  EXPECT_EQ(groups.members.of(kOtherGroup), std::vector{Qpn(5)});
  EXPECT_FALSE(groups.members.leave(groups.first, kGroup));
}

TEST(Multicast, a_port_listens_once_for_each_membership) {
  Groups groups;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(groups.members.join(groups.first, kGroup, &groups.wire)) << "once more is no error";
    EXPECT_EQ(groups.wire.listeners[kGroup], 1);
  }
  ASSERT_TRUE(groups.members.join(groups.second, kGroup, &groups.wire));
  EXPECT_EQ(groups.wire.listeners[kGroup], 2);
  groups.members.leave_all(groups.second);
  EXPECT_EQ(groups.wire.listeners[kGroup], 1);
}

TEST(Multicast, a_queue_pair_that_is_destroyed_leaves_all_its_groups) {
  Groups groups;
  ASSERT_TRUE(groups.members.join(groups.first, kGroup, &groups.wire));
  ASSERT_TRUE(groups.members.join(groups.first, kOtherGroup, &groups.wire));
  groups.members.leave_all(groups.first);
  EXPECT_TRUE(groups.members.of(kGroup).empty());
  EXPECT_EQ(groups.wire.listeners[kGroup], 0);
  EXPECT_EQ(groups.wire.listeners[kOtherGroup], 0);
}

TEST(Multicast, nobody_joins_who_cannot_receive_from_a_group) {
  Groups groups;
  groups.wire.refuses = true;
  EXPECT_FALSE(groups.members.join(groups.first, kGroup, &groups.wire));
  EXPECT_FALSE(groups.members.join(groups.first, Gid::ipv4(10, 1, 2, 3), nullptr));
  groups.second.service = Service::kReliableConnection;
  EXPECT_FALSE(groups.members.join(groups.second, kGroup, nullptr));
  EXPECT_TRUE(groups.members.of(kGroup).empty());
}

}  // namespace
}  // namespace weft::verbs

#include "mad/gsi.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "network/frame.h"

namespace weft::mad {
namespace {

const Gid kHere = Gid::ipv4(10, 1, 2, 3), kThere = Gid::ipv4(10, 1, 2, 4);

struct Remembered {
  Gid source, destination;
  Nanoseconds arrived_at;
  std::vector<std::byte> bytes;
};

class RememberingAgent final : public Agent {
 public:
  void on_datagram(Gsi&, const Datagram& datagram) override {
    all.push_back({datagram.source,
                   datagram.destination,
                   datagram.arrived_at,
                   {datagram.bytes.begin(), datagram.bytes.end()}});
  }
  std::vector<Remembered> all;
};

/// What is sent arrives at once at the other interface.
class DirectPort final : public port::Port {
 public:
  Gid address() const override { return kHere; }
  Mtu max_mtu() const override { return Mtu::k1024; }
  port::SendOutcome send(std::span<const port::Outgoing> frames) override {
    if (is_busy) return {port::SendStatus::kBusy, 0};
    for (const port::Outgoing& each : frames) {
      wire::Packet packet = each.frame->headers;
      const auto view = each.frame->pieces().front();
      packet.payload = {view.data, view.size};
      EXPECT_TRUE(other->receive(packet, each.flow, 5));
    }
    return {port::SendStatus::kTaken, frames.size()};
  }
  std::size_t receive(port::Receiver&, std::size_t) override { return 0; }

  Gsi* other = nullptr;
  bool is_busy = false;
};

Bytes some_datagram(Class of = Class::kCommunication) {
  Bytes bytes{};
  Header header;
  header.management_class = of;
  header.transaction = TransactionId(77);
  header.emit(std::span(bytes).first<Header::kSize>());
  bytes.back() = std::byte{9};
  return bytes;
}

struct Interfaces {
  RememberingAgent agent;
  Agents agents;
  obs::Counters counters, others;
  Gsi here{nullptr, counters}, there{&agents, others};
  DirectPort port;

  Interfaces() {
    agents.set(Class::kCommunication, agent);
    port.other = &there;
    here.add_port(kHere, port);
  }
};

TEST(Gsi, datagrams_reach_the_agent_of_their_class) {
  Interfaces interfaces;
  const Bytes bytes = some_datagram();
  ASSERT_TRUE(interfaces.here.send(kHere, kThere, bytes));
  ASSERT_EQ(interfaces.agent.all.size(), 1u);
  EXPECT_EQ(interfaces.agent.all[0].source, kHere);
  EXPECT_EQ(interfaces.agent.all[0].destination, kThere);
  EXPECT_EQ(interfaces.agent.all[0].arrived_at, 5u);
  EXPECT_TRUE(std::ranges::equal(interfaces.agent.all[0].bytes, bytes));
  EXPECT_EQ(interfaces.counters.get(obs::Counter::kFramesSent), 1u);
  ASSERT_TRUE(interfaces.here.send(kHere, kThere, some_datagram(Class::kPerformance)));
  EXPECT_EQ(interfaces.agent.all.size(), 1u);
}

TEST(Gsi, sends_only_from_an_address_that_is_on_the_network_and_has_room) {
  Interfaces interfaces;
  EXPECT_FALSE(interfaces.here.send(kThere, kHere, some_datagram()));
  EXPECT_FALSE(interfaces.there.send(kHere, kThere, some_datagram()));
  interfaces.port.is_busy = true;
  EXPECT_FALSE(interfaces.here.send(kHere, kThere, some_datagram()));
  EXPECT_EQ(interfaces.counters.get(obs::Counter::kFramesSent), 0u);
}

TEST(Gsi, leaves_frames_to_others_where_there_are_no_agents) {
  Interfaces interfaces;
  EXPECT_FALSE(interfaces.here.receive({}, {}, 0));
  Agents none;
  Gsi without(&none, interfaces.counters);
  EXPECT_FALSE(without.receive({}, {}, 0));
}

TEST(Gsi, frames_that_are_no_management_datagrams_are_counted_and_dropped) {
  Interfaces interfaces;
  const Bytes bytes = some_datagram();
  wire::Packet good;
  good.bth.opcode = wire::Opcode::kUdSendOnly;
  good.deth.qkey = QKey(0x8001'0000);
  good.payload = bytes;
  wire::Packet other_service = good, other_partition = good, other_key = good, too_short = good;
  other_service.bth.opcode = wire::Opcode::kRcSendOnly;
  other_partition.bth.pkey = PKey(0x1234);
  other_key.deth.qkey = QKey(1);
  too_short.payload = std::span(bytes).first(100);
  const std::pair<const wire::Packet*, obs::Counter> cases[] = {
      {&other_service, obs::Counter::kWrongService},
      {&other_partition, obs::Counter::kBadPartition},
      {&other_key, obs::Counter::kBadQKey},
      {&too_short, obs::Counter::kMalformedFrames}};
  for (const auto& [packet, counter] : cases) {
    EXPECT_TRUE(interfaces.there.receive(*packet, {}, 0));
    EXPECT_EQ(interfaces.others.get(counter), 1u);
  }
  EXPECT_TRUE(interfaces.agent.all.empty());
  EXPECT_TRUE(interfaces.there.receive(good, {}, 0));
  EXPECT_EQ(interfaces.agent.all.size(), 1u);
}

}  // namespace
}  // namespace weft::mad

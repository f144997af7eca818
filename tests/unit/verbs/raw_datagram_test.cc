// Raw datagrams between devices of one process: who claims what, what comes to whom, and what is
// dropped (B2.4). tests/system/raw_hosts_test.cc does the same with another host.
#include <gtest/gtest.h>

#include <thread>

#include "obs/counters.h"
#include "support/raw_packets.h"
#include "support/verbs_kit.h"
#include "verbs/controller.h"

namespace weft::test {
namespace {

using obs::Counter;

class RawDatagram : public testing::Test {
 protected:
  static QueuePair open(const Node& node, RawFraming framing = RawFraming::kPacket) {
    QueuePairOptions options;
    options.service = Service::kRawDatagram;
    options.raw_framing = framing;
    QueuePair qp = node.create(options);
    must(qp.activate());
    return qp;
  }
  static Completion next(const CompletionQueue& cq) { return must(cq.wait(kPatience)); }
  /// Who may send from any address: it claims a group that nobody sends to.
  static void allow(QueuePair& qp, const Gid& source) {
    must(qp.claim({.next_header = 253, .destination = source}));
  }
  static void send(const Node& node, QueuePair& qp, const Bytes& packet) {
    Memory memory(node, packet.size());
    std::ranges::copy(packet, memory.bytes.begin());
    post(qp, {.wr_id = 1, .op = SendOp::kSend}, {memory.sge()});
    EXPECT_TRUE(is_done(next(node.sends), 1, CompletionOp::kSend,
                        static_cast<std::uint32_t>(packet.size())));
  }
  static std::uint64_t count(const Node& node, Counter counter) {
    return node.device.controller()->counters().get(counter);
  }
  /// Polls until the node has counted so many.
  static bool counts(const Node& node, Counter counter, std::uint64_t want) {
    const auto deadline = Steady::now() + kPatience;
    while (count(node, counter) < want) {
      EXPECT_FALSE(node.receives.poll());
      if (Steady::now() > deadline) return false;
      std::this_thread::yield();
    }
    return count(node, counter) == want;
  }
  static bool receives(const Node& node, const Memory& inbox, const Bytes& packet,
                       std::uint64_t wr_id) {
    return is_done(next(node.receives), wr_id, CompletionOp::kReceive,
                   static_cast<std::uint32_t>(packet.size())) &&
           std::equal(packet.begin(), packet.end(), inbox.bytes.begin());
  }

  Node a{must(Device::open())}, b{must(Device::open())};
  const Gid here = gid("fd00:1::1"), there = gid("fd00:1::2");
};

TEST_F(RawDatagram, a_whole_packet_reaches_the_queue_pair_that_claimed_its_key) {
  // B2.4
  QueuePair from = open(a), to = open(b), other = open(b);
  Memory inbox(b, 2048), others(b, 2048);
  must(to.claim({.next_header = wire::kIpProtocolUdp, .destination = there}));
  must(other.claim({.next_header = wire::kIpProtocolTcp, .destination = there}));
  allow(from, here);
  post_receive(to, 7, {inbox.sge()});
  post_receive(other, 8, {others.sge()});
  const Bytes packet = udp_packet(here, there, 1200);
  send(a, from, packet);
  EXPECT_TRUE(receives(b, inbox, packet, 7));
  EXPECT_TRUE(others.is_zero());
}

TEST_F(RawDatagram, the_claim_that_says_most_counts_and_wildcards_get_the_rest) {
  QueuePair from = open(a), exact = open(b), address = open(b), protocol = open(b), all = open(b);
  Memory inbox(b, 2048);
  must(exact.claim({.next_header = wire::kIpProtocolUdp, .destination = there}));
  must(address.claim({.destination = there}));
  must(protocol.claim({.next_header = wire::kIpProtocolUdp}));
  must(all.claim({}));
  allow(from, here);
  std::uint64_t wr_id = 0;
  for (QueuePair* qp : {&exact, &address, &protocol, &all}) {
    post_receive(*qp, ++wr_id, {inbox.sge()});
  }
  const Bytes icmp = ipv6_packet({.source = here,
                                  .destination = there,
                                  .next_header = wire::kIcmpv6,
                                  .upper = bytes_of({128, 0, 0, 0, 0, 1, 0, 1})});
  Bytes elsewhere = icmp;
  elsewhere[39] = std::byte{9};
  send(a, from, udp_packet(here, there));
  EXPECT_TRUE(receives(b, inbox, udp_packet(here, there), 1));
  send(a, from, icmp);
  EXPECT_TRUE(receives(b, inbox, icmp, 2));
  send(a, from, udp_packet(here, gid("fd00:1::3")));
  EXPECT_TRUE(receives(b, inbox, udp_packet(here, gid("fd00:1::3")), 3));
  send(a, from, elsewhere);
  EXPECT_TRUE(receives(b, inbox, elsewhere, 4));
}

TEST_F(RawDatagram, a_second_claim_of_the_same_is_refused_until_the_first_is_released) {
  QueuePair first = open(b), second = open(b);
  const RawKey key{.next_header = wire::kIpProtocolUdp, .destination = there};
  must(first.claim(key));
  const auto refused = second.claim(key);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kBusy);
  EXPECT_NE(refused.error().message.find(std::to_string(first.number().value)), std::string::npos);
  must(first.release(key));
  EXPECT_EQ(first.release(key).error().code, Errc::kNotFound);
  must(second.claim(key));
  { QueuePair gone = std::move(second); }
  must(first.claim(key));  // the claims of a queue pair go with it
}

TEST_F(RawDatagram, each_member_of_a_group_gets_a_copy) {
  QueuePair from = open(a), one = open(b), two = open(b);
  Memory first(b, 2048), second(b, 2048);
  const Gid group = gid("ff0e::77");
  must(one.claim({.destination = group}));
  must(two.claim({.destination = group}));
  allow(from, here);
  post_receive(one, 1, {first.sge()});
  post_receive(two, 2, {second.sge()});
  const Bytes packet = udp_packet(here, group);
  send(a, from, packet);
  EXPECT_TRUE(receives(b, first, packet, 1));
  EXPECT_TRUE(receives(b, second, packet, 2));
}

TEST_F(RawDatagram, what_nobody_claimed_or_has_a_buffer_for_is_dropped_and_counted) {
  QueuePair from = open(a), to = open(b);
  must(to.claim({.next_header = wire::kIpProtocolUdp, .destination = there}));
  allow(from, here);
  send(a, from, udp_packet(here, gid("fd00:1::99")));
  EXPECT_TRUE(counts(b, Counter::kRawUnclaimed, 1));
  send(a, from, udp_packet(here, there));
  EXPECT_TRUE(counts(b, Counter::kDroppedMessages, 1));
  EXPECT_EQ(to.state(), QpState::kReadyToSend);
}

TEST_F(RawDatagram, sources_that_are_not_the_senders_and_broken_packets_do_not_leave) {
  QueuePair from = open(a), to = open(b);
  Memory inbox(b, 2048);
  must(to.claim({}));
  allow(from, here);
  post_receive(to, 5, {inbox.sge()});
  send(a, from, udp_packet(gid("fd00:1::66"), there));
  EXPECT_EQ(count(a, Counter::kRawSpoofed), 1U);
  Bytes cut = udp_packet(here, there);
  cut.pop_back();
  send(a, from, cut);
  EXPECT_EQ(count(a, Counter::kRawMalformed), 1U);
  Bytes jumbo = udp_packet(here, there);
  jumbo[4] = jumbo[5] = jumbo[6] = std::byte{0};
  send(a, from, jumbo);
  EXPECT_EQ(count(a, Counter::kRawJumbos), 1U);
  Bytes chain;
  for (int i = 0; i < 9; ++i) {
    const auto one = bytes_of({60, 0, 1, 4, 0, 0, 0, 0});
    chain.insert(chain.end(), one.begin(), one.end());
  }
  send(a, from,
       ipv6_packet({.source = here, .destination = there, .next_header = 60, .extensions = chain}));
  EXPECT_EQ(count(a, Counter::kRawBadExtensions), 1U);
  // The queue pair goes on, and nothing of this arrived.
  const Bytes good = udp_packet(here, there);
  send(a, from, good);
  EXPECT_TRUE(receives(b, inbox, good, 5));
}

TEST_F(RawDatagram, malformed_packets_that_arrive_are_dropped_and_counted) {
  // Frames leave as they are; who receives packets gets none that is broken.
  QueuePair from = open(a, RawFraming::kEthernet), to = open(b);
  Memory inbox(b, 2048);
  must(to.claim({}));
  post_receive(to, 5, {inbox.sge()});
  Bytes cut = udp_packet(here, there);
  cut.resize(50);
  send(a, from, frame_of(cut));
  EXPECT_TRUE(counts(b, Counter::kRawMalformed, 1));
  send(a, from, frame_of(udp_packet(gid("ff02::1"), there)));
  EXPECT_TRUE(counts(b, Counter::kRawSpoofed, 1));
  const Bytes good = udp_packet(here, there);
  Bytes padded = frame_of(good);
  padded.resize(padded.size() + 6);  // as short frames are
  send(a, from, padded);
  EXPECT_TRUE(receives(b, inbox, good, 5));
}

TEST_F(RawDatagram, a_packet_wakes_a_program_that_sleeps_on_its_channel) {
  const auto channel = must(b.device.create_channel());
  const auto cq = must(b.device.create_cq(16, channel));
  QueuePair from = open(a);
  QueuePair to = must(b.pd.create_queue_pair(cq, cq, {.service = Service::kRawDatagram}));
  must(to.activate());
  must(to.claim({.destination = there}));
  allow(from, here);
  Memory inbox(b, 2048);
  post_receive(to, 3, {inbox.sge()});
  cq.request_notify();
  const Bytes packet = udp_packet(here, there);
  std::thread later([&] { send(a, from, packet); });
  EXPECT_EQ(must(channel.wait(kPatience)), cq.number());
  later.join();
  EXPECT_TRUE(is_done(must(cq.wait(kPatience)), 3, CompletionOp::kReceive,
                      static_cast<std::uint32_t>(packet.size())));
}

TEST_F(RawDatagram, whole_ethernet_frames_go_to_the_claim_of_their_link_address) {
  QueuePair from = open(a, RawFraming::kEthernet), to = open(b, RawFraming::kEthernet);
  Memory inbox(b, 2048);
  const LinkAddress mine{0x0A, 0x0A, 0x0A, 0x0A, 0x0A, 0x0A};
  must(to.claim({.link_destination = mine}));
  post_receive(to, 9, {inbox.sge()});
  const Bytes frame = frame_of(Bytes(80, std::byte{0x77}), 0x88B5);
  send(a, from, frame);
  EXPECT_TRUE(receives(b, inbox, frame, 9));
}

TEST_F(RawDatagram, a_packet_longer_than_the_buffer_fails_the_buffer_and_no_more) {
  QueuePair from = open(a), to = open(b);
  Memory inbox(b, 2048);
  must(to.claim({.destination = there}));
  allow(from, here);
  post_receive(to, 1, {inbox.sge(0, 100)});
  post_receive(to, 2, {inbox.sge()});
  send(a, from, udp_packet(here, there, 500));
  EXPECT_EQ(next(b.receives).status, CompletionStatus::kLocalLengthError);
  const Bytes packet = udp_packet(here, there, 500);
  send(a, from, packet);
  EXPECT_TRUE(receives(b, inbox, packet, 2));
}

TEST_F(RawDatagram, a_packet_longer_than_the_port_carries_fails_its_sender) {
  QueuePair from = open(a);
  Memory memory(a, 5000);
  post(from, {.wr_id = 1, .op = SendOp::kSend}, {memory.sge()});
  EXPECT_EQ(next(a.sends).status, CompletionStatus::kLocalLengthError);
  EXPECT_EQ(from.state(), QpState::kSendQueueError);
  must(from.modify(QpState::kReadyToSend));
}

TEST_F(RawDatagram, other_queue_pairs_have_no_claims_and_raw_ones_no_peer) {
  QueuePair datagrams = b.create({.service = Service::kUnreliableDatagram});
  EXPECT_EQ(datagrams.claim({}).error().code, Errc::kNotSupported);
  QueuePair raw = open(b);
  EXPECT_EQ(raw.connect(raw.endpoint()).error().code, Errc::kNotSupported);
  Memory memory(b, 64);
  const Sge sge = memory.sge();
  SendRequest write{.op = SendOp::kWrite};
  write.sges = {&sge, 1};
  EXPECT_EQ(raw.post_send(write).error().code, Errc::kNotSupported);
}

TEST_F(RawDatagram, a_destroyed_queue_pair_takes_its_receives_along_and_reset_gives_none) {
  QueuePair from = open(a), to = open(b);
  Memory inbox(b, 2048);
  must(to.claim({.destination = there}));
  allow(from, here);
  post_receive(to, 1, {inbox.sge()});
  must(to.modify(QpState::kError));
  EXPECT_EQ(next(b.receives).status, CompletionStatus::kFlushed);
  send(a, from, udp_packet(here, there));
  EXPECT_TRUE(counts(b, Counter::kWrongState, 1));
}

}  // namespace
}  // namespace weft::test

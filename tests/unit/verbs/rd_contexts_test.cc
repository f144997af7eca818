// B2.2: end-to-end contexts over a wire in memory, whose frames a test loses, doubles and forges:
// how they are made, how they end, and what hostile frames do to them: nothing.
#include <map>

#include "base/random.h"
#include "path/contexts.h"
#include "support/pipe_port.h"
#include "support/rd_suite.h"
#include "wire/rd_setup.h"

namespace weft::test {
namespace {

class RdContexts : public testing::Test {
 protected:
  Device open(const path::ContextSettings& settings = {}) {
    Gid address = base::system_random().draw<Gid>();
    address.raw[0] = 0xFD;
    verbs::ControllerSetup setup;
    setup.path = verbs::PathPolicy::kFramed;
    setup.contexts = settings;
    setup.ports.push_back({address, hub.make_port(address)});
    return devices.emplace_back(
        must(verbs::Controller::create(verbs::process_environment(), std::move(setup))));
  }
  static QueuePair open_rd(const Node& node, QueuePairAttributes attributes = {}) {
    QueuePairOptions options;
    options.service = Service::kReliableDatagram;
    QueuePair qp = node.create(options);
    must(qp.activate(kRdKey, attributes));
    return qp;
  }
  static SendRequest to(const QueuePair& peer, SendRequest request) {
    const Endpoint end = peer.endpoint();
    request.destination.gid = end.gid;
    request.destination_qpn = end.qpn;
    request.destination_qkey = kRdKey;
    return request;
  }
  template <class Ready>
  bool wait_until(Ready ready) {
    const auto deadline = Steady::now() + kPatience;
    while (!ready()) {
      for (const Device& device : devices) device.controller()->poll();
      if (Steady::now() > deadline) return false;
    }
    return true;
  }
  Completion next(const CompletionQueue& cq) {
    Completion completion;
    if (!wait_until([&] { return cq.poll(std::span(&completion, 1)) == 1; })) {
      throw std::runtime_error("a completion did not come");
    }
    return completion;
  }
  static std::uint32_t contexts_of(const Node& node) {
    return node.device.controller()->contexts()->size().in_use;
  }
  static std::uint64_t counted(const Node& node, obs::Counter counter) {
    return node.device.controller()->counters().get(counter);
  }
  static bool is_setup(const PipeFrame& frame, wire::RdSetupKind kind) {
    const wire::Packet packet = frame.headers();
    if (packet.info().service != wire::Service::kRd || packet.rdeth.context.value != 0) {
      return false;
    }
    return wire::RdSetup::parse(packet.payload)->kind == kind;
  }

  PipeHub hub;
  std::vector<Device> devices;
};

TEST_F(RdContexts, are_made_although_setup_messages_are_lost_and_doubled) {
  const Node a(open()), b(open());
  std::map<wire::RdSetupKind, int> seen;
  hub.set_hook([&](const PipeFrame& frame) {
    for (const auto kind : {wire::RdSetupKind::kRequest, wire::RdSetupKind::kReply}) {
      if (is_setup(frame, kind)) return ++seen[kind] <= 2 ? Fate::kDrop : Fate::kDuplicate;
    }
    return Fate::kDeliver;
  });
  QueuePair from = open_rd(a), peer = open_rd(b);
  Memory near(a, 64), far(b, 64);
  post_receive(peer, 1, {far.sge()});
  post(from, to(peer, {.wr_id = 2}), {near.sge()});
  EXPECT_TRUE(next(a.sends).ok());
  EXPECT_TRUE(next(b.receives).ok());
  EXPECT_EQ(contexts_of(a), 1u);
  EXPECT_EQ(contexts_of(b), 1u);
  EXPECT_EQ(counted(b, obs::Counter::kContextsMade), 1u);
}

TEST_F(RdContexts, carry_everything_over_a_bad_wire) {
  const Node a(open()), b(open());
  base::SeededRandom random(7);
  hub.set_hook([&](const PipeFrame&) {
    const std::uint64_t fate = random.below(20);
    return fate == 0 ? Fate::kDrop : fate == 1 ? Fate::kDuplicate : Fate::kDeliver;
  });
  QueuePairAttributes attributes;
  attributes.min_rnr_timer = 1;
  QueuePair from = open_rd(a, attributes), peer = open_rd(b, attributes);
  constexpr std::uint64_t kMessages = 200;
  constexpr std::uint32_t kSize = 9000;
  Memory near(a, kSize), far(b, kSize);
  near.fill(3);
  std::uint64_t posted = 0, sent = 0, received = 0, buffers = 0;
  EXPECT_TRUE(wait_until([&] {
    if (posted < kMessages && posted - sent < 64) {
      post(from, to(peer, {.wr_id = posted++}), {near.sge()});
    }
    if (buffers < kMessages && buffers - received < 2) post_receive(peer, buffers++, {far.sge()});
    while (const auto done = a.sends.poll()) {
      EXPECT_TRUE(is_done(*done, sent, CompletionOp::kSend, kSize));
      ++sent;
    }
    while (const auto done = b.receives.poll()) {
      EXPECT_TRUE(is_done(*done, received, CompletionOp::kReceive, kSize));
      EXPECT_TRUE(far.holds(3));
      ++received;
    }
    return sent == kMessages && received == kMessages;
  }));
  EXPECT_GT(counted(a, obs::Counter::kResyncsSent), 0u) << "no receiver was not ready";
}

TEST_F(RdContexts, end_at_both_ends_when_they_are_idle_and_are_made_again) {
  // B2.2
  const Node a(open({.idle_ns = 2'000'000})), b(open());
  QueuePair from = open_rd(a), peer = open_rd(b);
  Memory near(a, 64), far(b, 64);
  for (std::uint64_t turn = 1; turn <= 3; ++turn) {
    post_receive(peer, turn, {far.sge()});
    post(from, to(peer, {.wr_id = turn}), {near.sge()});
    EXPECT_TRUE(next(a.sends).ok());
    EXPECT_TRUE(next(b.receives).ok());
    EXPECT_TRUE(wait_until([&] { return contexts_of(a) == 0 && contexts_of(b) == 0; }));
    EXPECT_EQ(counted(b, obs::Counter::kContextsMade), turn);
  }
  EXPECT_EQ(counted(a, obs::Counter::kContextsFailed), 0u);
}

TEST_F(RdContexts, tell_of_all_that_was_taken_before_a_queue_pair_ends) {
  const Node a(open()), b(open());
  QueuePairAttributes attributes;
  attributes.timeout = 8;
  attributes.retry_count = 0;
  QueuePair from = open_rd(a, attributes);
  Memory near(a, 64), far(b, 64);
  {
    QueuePair peer = open_rd(b);
    for (std::uint64_t i = 0; i < 2; ++i) post_receive(peer, i, {far.sge()});
    post(from, to(peer, {.wr_id = 1}), {near.sge()});
    EXPECT_TRUE(next(a.sends).ok());
    post(from, to(peer, {.wr_id = 2, .flags = SendFlags::kNone}), {near.sge()});
    EXPECT_TRUE(next(b.receives).ok());
    EXPECT_TRUE(next(b.receives).ok());
  }
  hub.set_hook([](const PipeFrame&) { return Fate::kDrop; });
  must(from.modify(QpState::kSendQueueDrained));
  EXPECT_TRUE(wait_until([&] {
    const auto event = a.device.next_event();
    return event && event->kind == AsyncEventKind::kSendQueueDrained;
  }));
  EXPECT_FALSE(a.sends.poll().has_value()) << "it failed, although it has arrived";
}

TEST_F(RdContexts, are_no_more_than_allowed) {
  const Node a(open({.most = 1})), b(open()), c(open());
  QueuePairAttributes attributes;
  attributes.timeout = 6;
  attributes.retry_count = 0;
  QueuePair from = open_rd(a), other = open_rd(b, attributes), third = open_rd(c, attributes);
  Memory near(a, 64), far(b, 64), there(c, 64);
  post_receive(other, 1, {far.sge()});
  post(from, to(other, {.wr_id = 1}), {near.sge()});
  EXPECT_TRUE(next(a.sends).ok());
  post(from, to(third, {.wr_id = 2}), {near.sge()});
  EXPECT_EQ(next(a.sends).status, CompletionStatus::kLocalQpOperationError);
  post(third, to(from, {.wr_id = 3}), {there.sge()});
  EXPECT_EQ(next(c.sends).status, CompletionStatus::kRetryExceeded);
  EXPECT_GT(counted(a, obs::Counter::kContextsRefused), 0u);
}

TEST_F(RdContexts, a_peer_that_begins_anew_ends_the_old_one) {
  const Node a(open()), b(open());
  std::optional<PipeFrame> request;
  hub.set_hook([&](const PipeFrame& frame) {
    if (is_setup(frame, wire::RdSetupKind::kRequest)) request = frame;
    return Fate::kDeliver;
  });
  QueuePair from = open_rd(a), peer = open_rd(b);
  Memory near(a, 64), far(b, 64);
  post_receive(peer, 1, {far.sge()});
  post(from, to(peer, {.wr_id = 1}), {near.sge()});
  EXPECT_TRUE(next(a.sends).ok());
  ASSERT_TRUE(request.has_value());
  request->packet[request->packet.size() - 1] ^= std::byte{1};  // another name
  hub.inject(*request);
  EXPECT_TRUE(wait_until([&] { return counted(b, obs::Counter::kContextsMade) == 2; }));
  EXPECT_EQ(contexts_of(b), 1u);
}

TEST_F(RdContexts, hostile_frames_are_counted_and_change_nothing) {
  // B2.2
  const Node a(open()), b(open());
  std::optional<PipeFrame> message;
  hub.set_hook([&](const PipeFrame& frame) {
    const wire::Packet packet = frame.headers();
    if (packet.rdeth.context.value != 0 && packet.info().has_deth) message = frame;
    return Fate::kDeliver;
  });
  QueuePair from = open_rd(a), peer = open_rd(b);
  Memory near(a, 64), far(b, 64);
  near.fill(1);
  const auto talk = [&](std::uint64_t id) {
    post_receive(peer, id, {far.sge()});
    post(from, to(peer, {.wr_id = id}), {near.sge()});
    EXPECT_TRUE(is_done(next(a.sends), id, CompletionOp::kSend, 64));
    EXPECT_TRUE(is_done(next(b.receives), id, CompletionOp::kReceive, 64));
  };
  talk(1);
  ASSERT_TRUE(message.has_value());
  const PipeFrame good = *message;
  const auto forged = [&](auto change) {
    PipeFrame frame = good;
    change(frame);
    hub.inject(std::move(frame));
  };
  const std::size_t rdeth = wire::Bth::kSize, psn = 9, setup = rdeth + 4 + 8;
  forged([&](PipeFrame& f) { f.packet[rdeth + 3] ^= std::byte{1}; });  // no such context
  forged([&](PipeFrame& f) { f.flow.source.raw[7] ^= 1; });            // not its peer
  for (int i = 0; i < 1000; ++i) {                                     // a storm
    forged([&](PipeFrame& f) {
      f.packet[0] = static_cast<std::byte>(wire::Opcode::kRdResync);
      f.flow.source.raw[7] ^= 1;
      f.packet.resize(setup);
    });
  }
  forged([&](PipeFrame& f) {  // a copy, and a setup message that is none
    f.packet[rdeth + 1] = f.packet[rdeth + 2] = f.packet[rdeth + 3] = std::byte{0};
  });
  forged([&](PipeFrame& f) { f.packet[psn] ^= std::byte{0x80}; });  // far ahead
  EXPECT_TRUE(wait_until([&] {
    return counted(b, obs::Counter::kUnknownContexts) >= 1 &&
           counted(b, obs::Counter::kWrongSource) >= 1001 &&
           counted(b, obs::Counter::kMalformedFrames) >= 1;
  }));
  talk(2);
  EXPECT_EQ(contexts_of(a), 1u);
  EXPECT_EQ(contexts_of(b), 1u);
  EXPECT_EQ(counted(b, obs::Counter::kResyncs), 0u);
}

TEST_F(RdContexts, a_thousand_requests_for_contexts_are_answered_and_then_some_are_not) {
  const Node b(open());
  QueuePair peer = open_rd(b);
  PipeFrame frame;
  frame.flow.source = Gid::ipv4(10, 9, 8, 7);
  frame.flow.destination = b.device.address();
  wire::RdSetup setup;
  setup.mtu = Mtu::k1024;
  wire::Packet packet;
  packet.bth = {};
  packet.bth.opcode = wire::Opcode::kRdSendOnly;
  packet.bth.dest_qp = peer.number();
  packet.rdeth = {};
  for (std::uint32_t i = 0; i < 3000; ++i) {
    setup.name = i;
    const auto bytes = setup.bytes();
    packet.deth = {wire::kRdSetupQKey, Qpn(100 + i)};
    packet.payload = bytes;
    frame.packet.resize(wire::kMaxHeaderBytes + bytes.size());
    frame.packet.resize(wire::emit_packet(packet, frame.packet));
    hub.inject(frame);
  }
  EXPECT_TRUE(wait_until([&] {
    return counted(b, obs::Counter::kContextsMade) + counted(b, obs::Counter::kContextsRefused) ==
           3000;
  }));
  EXPECT_GT(counted(b, obs::Counter::kContextsRefused), 0u);
  EXPECT_GE(counted(b, obs::Counter::kContextsMade), transport::RequestLimit::kAtOnce);
}

}  // namespace
}  // namespace weft::test

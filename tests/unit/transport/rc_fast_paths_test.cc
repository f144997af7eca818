// The fast ways of a reliable connection do what the ordinary ones do: two ends that are told the
// same, one of which knows no fast way, send the same frames and are left with the same memory.
#include <gtest/gtest.h>

#include "base/big_endian.h"
#include "base/random.h"
#include "support/transport_end.h"

namespace weft::test {
namespace {

constexpr std::uint32_t kQuickMtu = 256;

EndSetup fast_setup() {
  EndSetup setup;
  setup.attributes.path_mtu = Mtu::k256;
  setup.attributes.send_psn = setup.attributes.receive_psn = Psn(0xFFFFF0);
  return setup;
}

class RcFastPaths : public testing::Test {
 protected:
  RcFastPaths() { ordinary.fast = false; }

  void post_both(SendRequest request, std::uint32_t length, std::uint64_t wr_id) {
    for (RcEnd* end : {&fast, &ordinary}) {
      const Sge one = end->sge(0, length);
      request.sges = {&one, 1};
      request.wr_id = wr_id;
      ASSERT_TRUE(end->post_send(request).has_value());
    }
  }
  void expect_same_requests() {
    const auto a = fast.requests(), b = ordinary.requests();
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].bytes, b[i].bytes) << i;
    EXPECT_EQ(fast.requester.stream.sent(), ordinary.requester.stream.sent());
    EXPECT_EQ(fast.requester.cursor, ordinary.requester.cursor);
    EXPECT_EQ(transport::next_deadline(fast.requester),
              transport::next_deadline(ordinary.requester));
  }

  RcEnd fast{fast_setup()}, ordinary{fast_setup()};
};

TEST_F(RcFastPaths, requests_are_those_of_the_ordinary_way) {
  // B2.1
  base::SeededRandom random(7);
  for (int round = 0; round < 300; ++round) {
    for (std::uint64_t i = 0, n = 1 + random.below(6); i < n; ++i) {
      SendRequest request;
      request.op = random.below(4) == 0 ? SendOp::kWrite : SendOp::kSend;
      request.remote = {0x1000, RemoteKey(0x77)};
      if (random.below(2) == 0) request.flags = SendFlags::kSignaled;
      if (random.below(4) == 0) request.flags = request.flags | SendFlags::kSolicited;
      const auto frames = static_cast<std::uint32_t>(random.below(8));
      post_both(request, frames * kQuickMtu + static_cast<std::uint32_t>(random.below(40)), i);
    }
    expect_same_requests();
    // Some or all of it arrives; now and then nothing does until a probe has gone out.
    const Psn last = fast.requester.stream.sent() - 1;
    const std::uint32_t under_way =
        fast.requester.stream.sent().distance_from(fast.requester.stream.unacked());
    const Psn upto = random.below(3) == 0 || under_way == 0
                         ? last
                         : last - static_cast<std::uint32_t>(random.below(under_way));
    wire::Packet ack = headers_of(wire::Opcode::kRcAcknowledge, upto);
    ack.aeth =
        random.below(8) == 0 ? wire::Aeth::nak(0, wire::NakCode::kPsnSequence) : wire::Aeth::ack(0);
    const Nanoseconds later = fast.now() + 1 + random.below(3'000'000);
    for (RcEnd* end : {&fast, &ordinary}) {
      end->deliver(forge(ack));
      end->advance_to(later);
    }
    ASSERT_EQ(fast.take_sends().size(), ordinary.take_sends().size());
    if (HasFailure()) return;
  }
}

TEST_F(RcFastPaths, frames_that_arrive_leave_what_the_ordinary_way_leaves) {
  // B2.1
  base::SeededRandom random(11);
  RcEnd sender(fast_setup());
  std::uint64_t wr_id = 0;
  for (int round = 0; round < 300; ++round) {
    for (RcEnd* end : {&fast, &ordinary}) {
      while (end->qp.rq->posted() < 4) {
        end->post_receive(wr_id + end->qp.rq->posted(), 0, 2048);
      }
    }
    SendRequest request;
    const bool writes = random.below(2) == 0;
    request.op = writes ? SendOp::kWrite : SendOp::kSend;
    request.remote = fast.remote();
    if (random.below(6) == 0) request.remote.key = RemoteKey(request.remote.key.value ^ 0x100);
    const auto length = static_cast<std::uint32_t>(random.below(4) * kQuickMtu + random.below(60));
    const Sge one = sender.sge(0, length);
    request.sges = {&one, 1};
    ASSERT_TRUE(sender.post_send(request).has_value());
    ASSERT_EQ(fast.remote().key, ordinary.remote().key);
    for (Frame frame : sender.requests()) {
      if (random.below(20) == 0) frame.bytes[random.below(frame.bytes.size())] ^= std::byte{1};
      const auto packet = wire::parse_packet(frame.bytes);
      if (!packet || is_response(*packet)) continue;
      for (RcEnd* end : {&fast, &ordinary}) {
        Frame mine = frame;
        if (packet->info().has_reth) {
          // Each has memory of its own.
          const std::uint64_t at = packet->reth.address - fast.remote().address;
          base::store_be<std::uint64_t>(&mine.bytes[12], end->remote().address + at);
        }
        end->deliver(mine);
      }
    }
    const auto a = fast.answers(), b = ordinary.answers();
    ASSERT_EQ(a.size(), b.size()) << round;
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].bytes, b[i].bytes) << i;
    const auto got = fast.take_receives(), wanted = ordinary.take_receives();
    ASSERT_EQ(got.size(), wanted.size()) << round;
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].byte_count, wanted[i].byte_count);
      EXPECT_EQ(got[i].status, wanted[i].status);
    }
    EXPECT_EQ(fast.responder.stream.expected(), ordinary.responder.stream.expected());
    EXPECT_EQ(fast.responder.stream.msn(), ordinary.responder.stream.msn());
    EXPECT_EQ(fast.state(), ordinary.state());
    EXPECT_EQ(fast.copy_of(0, fast.memory().size()), ordinary.copy_of(0, fast.memory().size()));
    if (HasFailure()) return;
    if (fast.state() == QpState::kError || round % 10 == 9) {
      // A connection that was refused or went out of step begins anew.
      for (RcEnd* end : {&fast, &ordinary, &sender}) {
        transport::stop(end->requester, end->qp);
        transport::stop(end->responder, end->qp);
        while (!end->qp.sq.empty()) end->qp.sq.pop();
        end->qp.state = QpState::kReadyToSend;
        transport::start(end->requester, end->qp);
        transport::start(end->responder, end->qp);
        end->take_receives();
        end->take_sends();
      }
    } else {
      const Psn upto = sender.requester.stream.sent() - 1;
      wire::Packet ack = headers_of(wire::Opcode::kRcAcknowledge, upto);
      ack.aeth = wire::Aeth::ack(0);
      sender.deliver(forge(ack));
    }
  }
}

}  // namespace
}  // namespace weft::test

// B2.2: one end of an end-to-end context against a test that plays the other end: verdicts, RESYNC,
// and what is sent anew behind it.
#include <gtest/gtest.h>

#include "support/rd_end.h"
#include "transport/timing.h"
#include "unit/transport/small_mtu.h"

namespace weft::test {
namespace {

using wire::NakCode;
using wire::Opcode;
constexpr Psn kBegin{0xFFFFFE};  // every longer test wraps

EndSetup context_setup() {
  EndSetup setup;
  setup.attributes.path_mtu = Mtu::k256;
  setup.attributes.send_psn = setup.attributes.receive_psn = kBegin;
  setup.attributes.max_rd_atomic = setup.attributes.max_dest_rd_atomic = 4;
  setup.attributes.timeout = 16;
  setup.attributes.retry_count = 2;
  return setup;
}

class RdContext : public testing::Test {
 protected:
  void post(std::uint64_t wr_id, std::uint32_t length = 8, std::uint32_t sender = 1,
            SendOp op = SendOp::kSend) {
    SendRequest request{.wr_id = wr_id, .op = op};
    request.destination_qkey = kEndKey;
    request.remote = end.remote();
    end.post(sender, request, end.sge(0, length));
  }
  /// The numbers of the frames that go out, counted from the first one ever.
  std::vector<std::uint32_t> sent() {
    std::vector<std::uint32_t> numbers;
    last = end.requests();
    for (const Frame& frame : last) numbers.push_back(frame.psn().distance_from(kBegin));
    return numbers;
  }
  void answer(std::uint32_t at, wire::Aeth aeth) {
    wire::Packet packet = headers_of(Opcode::kRdAcknowledge, kBegin + at);
    packet.aeth = aeth;
    end.deliver(forge(packet));
  }
  Frame request(Opcode opcode, std::uint32_t at, std::size_t n, QKey qkey = kEndKey) {
    static const std::vector<std::byte> bytes(4096, std::byte{7});
    wire::Packet packet = headers_of(opcode, kBegin + at);
    packet.bth.dest_qp = kReceiver;
    packet.deth = {qkey, Qpn(9)};
    packet.rdeth.context = EecNumber(kContextHere.value);
    packet.reth = {end.remote().address, end.exposed.rkey, static_cast<std::uint32_t>(n)};
    return forge(packet, std::span(bytes).first(packet.info().has_payload ? n : 0));
  }
  wire::Packet said() {
    last = end.answers();
    EXPECT_FALSE(last.empty());
    return last.empty() ? wire::Packet() : last.back().packet();
  }

  using Numbers = std::vector<std::uint32_t>;
  RdEnd end{context_setup()};
  std::vector<Frame> last;
};

TEST_F(RdContext, sends_nothing_but_resync_behind_a_refusal_and_then_the_rest_anew) {
  for (std::uint64_t id = 1; id <= 4; ++id) post(id);
  EXPECT_EQ(sent(), (Numbers{0, 1, 2, 3}));
  answer(1, wire::Aeth::nak(1, NakCode::kRemoteAccess));
  EXPECT_EQ(end.take_outcomes(), (std::vector<Outcome>{{1, CompletionStatus::kSuccess}}));
  EXPECT_EQ(sent(), Numbers{4});
  EXPECT_EQ(last.front().opcode(), Opcode::kRdResync);
  EXPECT_TRUE(sent().empty());
  answer(1, wire::Aeth::nak(1, NakCode::kRemoteAccess));  // said again: out of date
  EXPECT_TRUE(sent().empty());
  answer(4, wire::Aeth::ack(1));
  EXPECT_EQ(end.take_outcomes(), (std::vector<Outcome>{{2, CompletionStatus::kRemoteAccessError}}));
  EXPECT_EQ(sent(), (Numbers{5, 6}));
  answer(6, wire::Aeth::ack(3));
  EXPECT_EQ(end.take_outcomes().size(), 2u);
}

TEST_F(RdContext, does_not_send_again_what_the_peer_says_it_executed) {
  for (std::uint64_t id = 1; id <= 4; ++id) post(id);
  EXPECT_EQ(sent().size(), 4u);
  end.sources_gone = true;  // no frame can be repeated any more
  end.advance_to(end.now() + transport::ack_timeout_ns(16));
  EXPECT_EQ(sent(), Numbers{4});
  end.sources_gone = false;
  answer(4, wire::Aeth::ack(3));
  const auto outcomes = end.take_outcomes();
  ASSERT_EQ(outcomes.size(), 3u);
  for (const Outcome& one : outcomes) EXPECT_EQ(one.status, CompletionStatus::kSuccess);
  EXPECT_EQ(sent(), Numbers{5});
}

TEST_F(RdContext, fails_when_the_peer_says_it_executed_what_was_not_sent) {
  post(1);
  EXPECT_EQ(sent(), Numbers{0});
  answer(0, wire::Aeth::nak(0, NakCode::kRemoteAccess));
  EXPECT_EQ(sent(), Numbers{1});
  answer(1, wire::Aeth::ack(9));
  EXPECT_EQ(end.failures, 1);
}

TEST_F(RdContext, parks_the_one_sender_whose_receiver_is_not_ready) {
  post(1, 8, 1);
  post(2, 8, 1);
  post(3, 8, 2);
  EXPECT_EQ(sent(), (Numbers{0, 1, 2}));
  answer(0, wire::Aeth::rnr_nak(0, 14));
  EXPECT_EQ(sent(), Numbers{3});
  answer(3, wire::Aeth::ack(0));
  EXPECT_EQ(sent(), Numbers{4});
  EXPECT_EQ(last.front().packet().deth.source_qp, Qpn(2));
  answer(4, wire::Aeth::ack(1));
  EXPECT_TRUE(sent().empty());
  end.advance_to(end.now() + transport::rnr_timer_ns(14));
  EXPECT_EQ(sent(), (Numbers{5, 6}));
  EXPECT_EQ(last.front().packet().deth.source_qp, Qpn(1));
}

TEST_F(RdContext, one_message_at_a_time_if_the_peer_wants_it_so) {
  RdEnd one(context_setup(), kContextHere, kContextThere, false);
  SendRequest request{.wr_id = 1};
  request.destination_qkey = kEndKey;
  one.post(1, request, one.sge(0, 600));
  one.post(1, request, one.sge(0, 8));
  EXPECT_EQ(one.requests().size(), 3u);
  wire::Packet packet = headers_of(Opcode::kRdAcknowledge, kBegin + 2);
  packet.aeth = wire::Aeth::ack(1);
  one.deliver(forge(packet));
  EXPECT_EQ(one.requests().size(), 1u);
}

TEST_F(RdContext, repeats_resync_until_retries_run_out) {
  post(1);
  EXPECT_EQ(sent(), Numbers{0});
  answer(0, wire::Aeth::nak(0, NakCode::kInvalidRd));
  int repeated = 0;
  for (int i = 0; i < 1000 && end.failures == 0; ++i) {
    repeated += static_cast<int>(sent().size());
    end.advance_to(end.deadline());
  }
  EXPECT_EQ(end.failures, 1);
  EXPECT_GE(repeated, 3);
  EXPECT_EQ(end.take_outcomes(),
            (std::vector<Outcome>{{1, CompletionStatus::kRemoteInvalidRdRequest}}));
}

// ---- responder ------------------------------------------------------------------------------

TEST_F(RdContext, says_its_verdict_again_and_executes_nothing_until_resync) {
  // B2.2
  end.deliver(request(Opcode::kRdSendOnly, 0, 8));
  EXPECT_EQ(said().aeth.kind(), wire::AethKind::kRnrNak);
  end.post_receive(1, 4096, 64);  // too late for this number
  end.deliver(request(Opcode::kRdSendOnly, 0, 8));
  EXPECT_EQ(said().aeth.kind(), wire::AethKind::kRnrNak);
  end.deliver(request(Opcode::kRdSendOnly, 1, 8));
  const wire::Packet again = said();
  EXPECT_EQ(again.bth.psn, kBegin);
  EXPECT_TRUE(end.take_receives().empty());
  end.deliver(request(Opcode::kRdResync, 2, 0));
  EXPECT_EQ(said().bth.psn, kBegin + 2);
  end.deliver(request(Opcode::kRdSendOnly, 0, 8));  // a late copy
  EXPECT_EQ(said().aeth.kind(), wire::AethKind::kAck);
  EXPECT_TRUE(end.take_receives().empty());
  end.deliver(request(Opcode::kRdSendOnly, 3, 8));
  EXPECT_EQ(said().aeth.msn, 1u);
  EXPECT_EQ(end.take_receives().size(), 1u);
}

TEST_F(RdContext, refuses_a_wrong_q_key_and_tells_how_many_it_executed) {
  end.post_receive(1, 4096, 64);
  end.deliver(request(Opcode::kRdSendOnly, 0, 8));
  EXPECT_EQ(said().aeth.kind(), wire::AethKind::kAck);
  end.deliver(request(Opcode::kRdSendOnly, 1, 8, QKey(5)));
  const wire::Packet nak = said();
  EXPECT_EQ(nak.aeth.nak_code(), NakCode::kInvalidRd);
  EXPECT_EQ(nak.aeth.msn, 1u);
}

TEST_F(RdContext, resyncs_that_go_back_change_nothing) {
  end.post_receive(1, 4096, 64);
  end.deliver(request(Opcode::kRdSendOnly, 0, 8));
  EXPECT_EQ(said().bth.psn, kBegin);
  end.deliver(request(Opcode::kRdResync, 0, 0));
  EXPECT_EQ(said().bth.psn, kBegin);
  EXPECT_EQ(end.responder.stream.expected(), kBegin + 1);
}

TEST_F(RdContext, a_message_that_is_given_up_leaves_its_buffer_to_the_next) {
  end.post_receive(1, 4096, 1024);
  end.deliver(request(Opcode::kRdSendFirst, 0, 256));
  end.deliver(request(Opcode::kRdResync, 5, 0));
  EXPECT_EQ(end.target.spares.size(), 1u);
  end.deliver(request(Opcode::kRdSendOnly, 6, 8));
  EXPECT_TRUE(end.target.spares.empty());
  const auto received = end.take_receives();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_TRUE(received.front().ok());
  EXPECT_EQ(received.front().byte_count, 8u);
  EXPECT_EQ(received.front().source_qp, Qpn(9));
}

TEST_F(RdContext, a_receiver_that_is_reset_gets_its_buffers_back_as_flushed) {
  end.post_receive(1, 4096, 1024);
  end.deliver(request(Opcode::kRdSendFirst, 0, 256));
  transport::stop(end.target, end.qp);
  const auto received = end.take_receives();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received.front().status, CompletionStatus::kFlushed);
  last = end.answers();
  end.deliver(request(Opcode::kRdSendLast, 1, 8));
  EXPECT_EQ(said().aeth.kind(), wire::AethKind::kNak);
}

TEST_F(RdContext, a_write_that_comes_again_is_the_same_use_of_a_one_shot_key) {
  // B4.10
  end.exposed = end.expose(Access::kLocalWrite | kAllRemote | Access::kOneShot);
  const auto whole = [&](std::uint32_t at) {
    Frame first = request(Opcode::kRdWriteFirst, at, 256);
    wire::Packet packet = first.packet();
    packet.reth.length = 512;
    end.deliver(forge(packet, packet.payload));
    end.deliver(request(Opcode::kRdWriteLastWithImmediate, at + 1, 256));
    return said().aeth.kind();
  };
  EXPECT_EQ(whole(0), wire::AethKind::kRnrNak);
  end.deliver(request(Opcode::kRdResync, 2, 0));
  EXPECT_EQ(said().aeth.kind(), wire::AethKind::kAck);
  end.post_receive(1, 4096, 64);
  EXPECT_EQ(whole(3), wire::AethKind::kAck);
  EXPECT_EQ(whole(5), wire::AethKind::kNak) << "another use";
}

}  // namespace
}  // namespace weft::test

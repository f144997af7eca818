// The responder and receive buffers: several frames and elements, none there, too small, gone,
// immediates and invalidates.
#include "unit/transport/responder_fixture.h"

namespace weft::test {
namespace {

using obs::Counter;
using queue::QpEvent;

TEST_F(Responder, puts_a_message_of_several_frames_into_several_elements) {
  // B2.6: elements straddle frames.
  const Sge list[] = {end.sge(0, 100), end.sge(1000, 300), end.sge(3000, 500)};
  ASSERT_TRUE(end.qp.rq->post({9, list}));
  end.deliver(send_frame(Opcode::kRcSendFirst, 0, kMtu));
  end.deliver(send_frame(Opcode::kRcSendMiddle, 1, kMtu));
  EXPECT_EQ(end.recv_cq.size(), 0u);
  end.deliver(send_frame(Opcode::kRcSendLastWithImmediate, 2, 50));
  const auto done = end.take_receives();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(done[0].ok());
  EXPECT_EQ(done[0].wr_id, 9u);
  EXPECT_EQ(done[0].byte_count, 2 * kMtu + 50);
  EXPECT_EQ(done[0].source_qp, Qpn(0x22));
  EXPECT_TRUE(done[0].has_immediate);
  EXPECT_EQ(done[0].immediate, 0xABCDu);
  std::vector<std::byte> all;
  for (const auto& part : {end.copy_of(0, 100), end.copy_of(1000, 300), end.copy_of(3000, 162)}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  const auto frame = sent(kMtu);  // every frame carries the start of the same bytes
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], frame[i % kMtu]) << i;
  EXPECT_EQ(end.memory()[3162], std::byte{0xEE}) << "written past the message";
}

TEST_F(Responder, takes_an_empty_message) {
  end.post_receive(5, 0, 16);
  end.deliver(send_frame(Opcode::kRcSendOnly, 0, 0));
  expect_ack(0, 1);
  const auto done = end.take_receives();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].byte_count, 0u);
}

TEST_F(Responder, asks_to_wait_when_there_is_no_buffer_and_goes_on_when_there_is) {
  end.qp.attributes.min_rnr_timer = 19;
  end.deliver(send_frame(Opcode::kRcSendOnly, 0, 20));
  wire::Packet packet = answer();
  ASSERT_EQ(packet.aeth.kind(), wire::AethKind::kRnrNak);
  EXPECT_EQ(packet.aeth.rnr_timer_code(), 19);
  EXPECT_EQ(packet.bth.psn, kFirstPsn);
  EXPECT_EQ(packet.aeth.msn, 0u);
  end.deliver(send_frame(Opcode::kRcSendOnly, 1, 20));
  EXPECT_TRUE(end.answers().empty()) << "frames behind it are dropped in silence";
  end.deliver(send_frame(Opcode::kRcSendOnly, 0, 20));
  packet = answer();
  EXPECT_EQ(packet.aeth.kind(), wire::AethKind::kRnrNak) << "still none there";
  end.post_receive(1, 0, 64);
  end.deliver(send_frame(Opcode::kRcSendOnly, 0, 20));
  expect_ack(0, 1);
  EXPECT_EQ(end.take_receives().size(), 1u);
  EXPECT_EQ(end.counted(Counter::kRnrNaksSent), 2u);
}

TEST_F(Responder, refuses_a_message_that_is_too_long_for_its_buffer) {
  end.post_receive(1, 1000, kMtu + 10);
  end.deliver(send_frame(Opcode::kRcSendFirst, 0, kMtu));
  end.answers();
  end.deliver(send_frame(Opcode::kRcSendLast, 1, 11));
  expect_nak(1, NakCode::kInvalidRequest);
  EXPECT_EQ(end.state(), QpState::kError);
  const auto done = end.take_receives();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kLocalLengthError);
  EXPECT_EQ(end.memory()[1000 + kMtu + 10], std::byte{0xEE});
  end.settle();
  EXPECT_TRUE(end.take_receives().empty()) << "completed twice";
}

TEST_F(Responder, reports_a_buffer_with_a_dead_key_on_both_sides) {
  const Sge bad{end.address(), 64, LocalKey(0x7777)};
  ASSERT_TRUE(end.qp.rq->post({1, {&bad, 1}}));
  end.deliver(send_frame(Opcode::kRcSendOnly, 0, 20));
  expect_nak(0, NakCode::kRemoteOperation);
  const auto done = end.take_receives();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kLocalProtectionError);
}

TEST_F(Responder, takes_a_buffer_for_a_write_with_immediate_with_its_last_frame) {
  end.deliver(write_frame(Opcode::kRcWriteFirst, 0, kMtu, kMtu + 8));
  expect_ack(0, 0);
  const Frame last = write_frame(Opcode::kRcWriteLastWithImmediate, 1, 8, 0);
  end.deliver(last);
  EXPECT_EQ(answer().aeth.kind(), wire::AethKind::kRnrNak);
  EXPECT_EQ(exposed(kMtu, 8), std::vector(8, std::byte{0xEE})) << "deferred but written";
  end.post_receive(4, 0, 0);
  end.deliver(last);
  expect_ack(1, 1);
  const auto done = end.take_receives();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].op, CompletionOp::kReceiveWriteImmediate);
  EXPECT_EQ(done[0].byte_count, kMtu + 8);
  EXPECT_EQ(done[0].immediate, 0xABCDu);
  EXPECT_EQ(exposed(kMtu, 8), sent(8));
  end.deliver(last);
  expect_ack(1, 1);
  EXPECT_TRUE(end.take_receives().empty());
}

TEST_F(Responder, invalidates_the_key_that_a_send_names) {
  const auto once = end.expose(Access::kLocalWrite | kAllRemote | Access::kOneShot);
  end.post_receive(1, 0, 64);
  wire::Packet packet = headers_of(Opcode::kRcSendOnlyWithInvalidate, kFirstPsn);
  packet.invalidate_key = once.rkey;
  end.deliver(forge(packet, data(16)));
  expect_ack(0, 1);
  const auto done = end.take_receives();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(done[0].has_invalidate);
  EXPECT_EQ(done[0].invalidated_key, once.rkey);
  expect_fatal(write_frame(Opcode::kRcWriteOnly, 1, 4, 4, {end.remote().address, once.rkey}), 1,
               NakCode::kRemoteAccess);
}

TEST_F(Responder, refuses_to_invalidate_a_key_that_is_not_of_that_kind) {
  end.post_receive(1, 0, 64);
  wire::Packet packet = headers_of(Opcode::kRcSendOnlyWithInvalidate, kFirstPsn);
  packet.invalidate_key = end.exposed.rkey;
  end.deliver(forge(packet, data(16)));
  expect_nak(0, NakCode::kRemoteAccess);
  const auto done = end.take_receives();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_FALSE(done[0].ok());
  end.settle();
  EXPECT_TRUE(end.take_receives().empty());
}

TEST_F(Responder, gives_back_the_buffer_of_a_half_received_message_when_it_stops) {
  end.post_receive(1, 0, 1024);
  end.post_receive(2, 0, 1024);
  end.deliver(send_frame(Opcode::kRcSendFirst, 0, kMtu));
  queue::fail_queue_pair(end.qp);
  end.settle();
  const auto done = end.take_receives();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].wr_id, 1u);
  EXPECT_EQ(done[1].wr_id, 2u);
  for (const auto& one : done) EXPECT_EQ(one.status, CompletionStatus::kFlushed);
}

TEST_F(Responder, tells_when_a_shared_queue_runs_low) {
  queue::ReceiveQueue srq;
  srq.configure(8, 1);
  const Sge one = end.sge(0, 64);
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(srq.post({i, {&one, 1}}));
  srq.arm_limit(3);
  end.qp.shared_receive = &srq;
  end.deliver(send_frame(Opcode::kRcSendOnly, 0, 4));
  EXPECT_EQ(end.sink.limits, 0);
  end.deliver(send_frame(Opcode::kRcSendOnly, 1, 4));
  EXPECT_EQ(end.sink.limits, 1);
  end.deliver(send_frame(Opcode::kRcSendOnly, 2, 4));
  EXPECT_EQ(end.sink.limits, 1) << "told twice";
  EXPECT_EQ(end.take_receives().size(), 3u);
}

}  // namespace
}  // namespace weft::test

// The requester and acknowledgements: cumulative, stale, forged, negative.
#include "unit/transport/requester_fixture.h"

namespace weft::test {
namespace {

using obs::Counter;

TEST_F(Requester, splits_a_message_into_frames) {
  // B2.6
  fill_pattern(end.memory().first(1000), 3);
  const Sge list[] = {end.sge(0, 100), end.sge(100, 500), end.sge(600, 20)};
  SendRequest request{.wr_id = 1, .op = SendOp::kWriteImmediate, .sges = list, .immediate = 42};
  request.remote = {0xABC, RemoteKey(9)};
  ASSERT_TRUE(end.post_send(request));
  const auto frames = end.requests();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].opcode(), Opcode::kRcWriteFirst);
  EXPECT_EQ(frames[1].opcode(), Opcode::kRcWriteMiddle);
  EXPECT_EQ(frames[2].opcode(), Opcode::kRcWriteLastWithImmediate);
  EXPECT_EQ(frames[0].packet().reth, (wire::Reth{0xABC, RemoteKey(9), 620}));
  EXPECT_EQ(frames[2].packet().immediate, 42u);
  EXPECT_FALSE(frames[0].packet().bth.ack_request);
  EXPECT_TRUE(frames[2].packet().bth.ack_request);
  std::vector<std::byte> all;
  for (const Frame& frame : frames) {
    const auto part = frame.packet().payload;
    all.insert(all.end(), part.begin(), part.end());
    EXPECT_EQ(frame.packet().bth.dest_qp, Qpn(0x22));
  }
  EXPECT_EQ(all, end.copy_of(0, 620));
}

TEST_F(Requester, completes_in_order_what_one_acknowledgement_covers) {
  // B2.1
  post(1, SendOp::kSend, 10);
  post(2, SendOp::kWrite, 2 * kMtu);
  post(3, SendOp::kSend, 0);
  EXPECT_EQ(sent(), (Numbers{0, 1, 2, 3}));
  ack(1);
  EXPECT_EQ(completed(), Ids{1});
  ack(3);
  EXPECT_EQ(completed(), (Ids{2, 3}));
  EXPECT_EQ(transport::next_deadline(end.requester), kNever);
  EXPECT_TRUE(transport::drained(end.requester));
}

TEST_F(Requester, ignores_stale_and_ghost_acknowledgements) {
  post(1, SendOp::kSend, 10);
  post(2, SendOp::kSend, 10);
  EXPECT_EQ(sent(), (Numbers{0, 1}));
  ack(0);
  EXPECT_EQ(completed(), Ids{1});
  ack(0);
  for (const std::uint32_t at : {0xFFFFFFu, 2u, 3u, 100u, 0x7FFFFFu, 0x800000u}) {
    ack(at);
    nak(at, NakCode::kRemoteAccess);
    rnr(at);
    read_data(at, 10);
    atomic_data(at, 5);
  }
  EXPECT_TRUE(completed().empty());
  EXPECT_EQ(end.counted(Counter::kStaleAcknowledgements), 31u);
  EXPECT_EQ(end.state(), QpState::kReadyToSend);
  EXPECT_TRUE(sent().empty());
  ack(1);
  EXPECT_EQ(completed(), Ids{2});
}

TEST_F(Requester, never_completes_what_was_not_sent) {
  for (std::uint64_t i = 1; i <= 3; ++i) post(i, SendOp::kSend, 10);
  ASSERT_TRUE(end.next_request());
  for (std::uint32_t at = 1; at < 300; ++at) ack(at);
  EXPECT_TRUE(completed().empty());
  ack(0);
  EXPECT_EQ(completed(), Ids{1});
  EXPECT_EQ(sent(), (Numbers{1, 2}));
}

TEST_F(Requester, completes_nothing_before_its_last_frame_is_sent) {
  post(1, SendOp::kSend, 4 * kMtu);
  ASSERT_TRUE(end.next_request());
  ASSERT_TRUE(end.next_request());
  ack(3);
  ack(2);
  EXPECT_TRUE(completed().empty());
  ack(1);
  EXPECT_TRUE(completed().empty());
  EXPECT_EQ(sent(), (Numbers{2, 3}));
  ack(3);
  EXPECT_EQ(completed(), Ids{1});
}

TEST_F(Requester, leaves_unsignaled_work_without_a_word) {
  post(1, SendOp::kSend, 10, {.flags = SendFlags::kNone});
  post(2, SendOp::kSend, 10);
  sent();
  ack(1);
  EXPECT_EQ(completed(), Ids{2});
}

TEST_F(Requester, goes_back_to_the_frame_that_a_sequence_nak_names) {
  post(1, SendOp::kSend, 10);
  post(2, SendOp::kSend, 3 * kMtu);
  post(3, SendOp::kSend, 10);
  EXPECT_EQ(sent(), (Numbers{0, 1, 2, 3, 4}));
  nak(2, NakCode::kPsnSequence);
  EXPECT_EQ(completed(), Ids{1}) << "everything before it has arrived";
  const auto again = end.requests();
  ASSERT_EQ(again.size(), 3u);
  EXPECT_EQ(again[0].psn(), kSendPsn + 2);
  EXPECT_EQ(again[0].opcode(), Opcode::kRcSendMiddle);
  EXPECT_EQ(again[1].opcode(), Opcode::kRcSendLast);
  nak(2, NakCode::kPsnSequence);
  EXPECT_TRUE(sent().empty()) << "a copy of the NAK starts nothing";
  ack(4);
  EXPECT_EQ(completed(), (Ids{2, 3}));
}

TEST_F(Requester, follows_acknowledgements_that_overtake_its_going_back) {
  for (std::uint64_t i = 1; i <= 4; ++i) post(i, SendOp::kSend, 2 * kMtu);
  EXPECT_EQ(sent().size(), 8u);
  end.advance_to(end.now() + kTimeout);
  ASSERT_TRUE(end.next_request());
  ack(4);  // the first transmission did arrive
  EXPECT_EQ(completed(), (Ids{1, 2}));
  EXPECT_EQ(sent(), (Numbers{5, 6, 7})) << "what is acknowledged is not sent again";
  ack(7);
  EXPECT_EQ(completed(), (Ids{3, 4}));
}

TEST_F(Requester, fails_with_the_reason_of_the_nak_and_flushes_the_rest) {
  const std::pair<NakCode, CompletionStatus> reasons[] = {
      {NakCode::kInvalidRequest, CompletionStatus::kRemoteInvalidRequest},
      {NakCode::kRemoteAccess, CompletionStatus::kRemoteAccessError},
      {NakCode::kRemoteOperation, CompletionStatus::kRemoteOperationError},
      {NakCode::kInvalidRd, CompletionStatus::kBadResponse},
  };
  for (const auto& [code, status] : reasons) {
    RcEnd other(requester_setup());
    const Sge one = other.sge(0, 10);
    for (std::uint64_t i = 1; i <= 3; ++i) {
      const auto flags = i == 3 ? SendFlags::kNone : SendFlags::kSignaled;
      ASSERT_TRUE(other.post_send({.wr_id = i, .flags = flags, .sges = {&one, 1}}));
    }
    other.requests();
    other.deliver(ack_frame(kSendPsn + 1, wire::Aeth::nak(0, code)));
    other.settle();
    const auto all = other.take_sends();
    ASSERT_EQ(all.size(), 3u);
    EXPECT_TRUE(all[0].ok()) << "the NAK acknowledges what came before";
    EXPECT_EQ(all[1].status, status);
    EXPECT_EQ(all[2].status, CompletionStatus::kFlushed) << "failures are told although unsignaled";
  }
}

TEST_F(Requester, counts_an_acknowledgement_of_no_known_kind_as_malformed) {
  post(1, SendOp::kSend, 10);
  sent();
  for (const unsigned syndrome : {0x40u, 0x65u, 0x7Fu, 0x80u, 0xFFu}) {
    end.deliver(ack_frame(kSendPsn, {static_cast<std::uint8_t>(syndrome), 0}));
  }
  EXPECT_EQ(end.counted(Counter::kMalformedFrames), 5u);
  EXPECT_TRUE(completed().empty());
  EXPECT_EQ(end.state(), QpState::kReadyToSend);
}

TEST_F(Requester, stops_at_a_full_window_and_asks_for_an_acknowledgement_there) {
  post(1, SendOp::kSend, 300 * kMtu);
  const auto frames = end.requests();
  ASSERT_EQ(frames.size(), transport::Window::kMostFirstFrames);
  EXPECT_TRUE(frames.back().packet().bth.ack_request);
  std::uint32_t since = 0;
  for (const Frame& frame : frames) {
    since = frame.packet().bth.ack_request ? 0 : since + 1;
    EXPECT_LT(since, transport::AckRequests::kEveryFrames);
  }
  ack(99);
  EXPECT_EQ(end.requests().size(), 300u - frames.size()) << "the window has grown";
  ack(299);
  EXPECT_EQ(completed(), Ids{1});
}

TEST_F(Requester, reports_its_own_bad_buffer_after_the_work_before_it) {
  post(1, SendOp::kSend, 10);
  const Sge list[] = {end.sge(0, kMtu), Sge{end.address(), 8, LocalKey(0x999)}};
  ASSERT_TRUE(end.post_send({.wr_id = 2, .sges = list}));
  post(3, SendOp::kSend, 10);
  EXPECT_EQ(sent(), (Numbers{0, 1})) << "nothing behind the broken one goes out";
  EXPECT_TRUE(completed().empty());
  ack(0);
  EXPECT_EQ(end.state(), QpState::kError);
  end.settle();
  const auto all = end.take_sends();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].status, CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(all[2].status, CompletionStatus::kFlushed);
}

TEST_F(Requester, sends_nothing_and_hears_nothing_in_other_states) {
  post(1, SendOp::kSend, 10);
  for (const QpState state : {QpState::kReset, QpState::kInit, QpState::kReadyToReceive,
                              QpState::kSendQueueError, QpState::kError}) {
    end.qp.state = state;
    EXPECT_TRUE(sent().empty()) << to_string(state);
  }
  end.qp.state = QpState::kReadyToSend;
  EXPECT_EQ(sent(), Numbers{0});
  end.qp.state = QpState::kError;
  ack(0);
  EXPECT_TRUE(completed().empty());
  EXPECT_EQ(end.counted(Counter::kWrongState), 1u);
}

TEST_F(Requester, drains_what_has_begun_and_begins_nothing) {
  post(1, SendOp::kSend, 3 * kMtu);
  post(2, SendOp::kSend, 10);
  ASSERT_TRUE(end.next_request());
  end.qp.state = QpState::kSendQueueDrained;
  EXPECT_EQ(sent(), (Numbers{1, 2}));
  EXPECT_FALSE(transport::drained(end.requester));
  ack(2);
  EXPECT_EQ(completed(), Ids{1});
  EXPECT_TRUE(transport::drained(end.requester));
  EXPECT_TRUE(sent().empty());
  end.qp.state = QpState::kReadyToSend;
  EXPECT_EQ(sent(), Numbers{3});
}

TEST_F(Requester, does_not_begin_a_read_for_which_the_window_has_no_room) {
  // Otherwise it would be called drained and then send the read.
  post(1, SendOp::kSend, 250 * kMtu);
  post(2, SendOp::kRead, 20 * kMtu);
  EXPECT_EQ(sent().size(), 250u);
  end.qp.state = QpState::kSendQueueDrained;
  ack(249);
  EXPECT_EQ(completed(), Ids{1});
  EXPECT_TRUE(transport::drained(end.requester));
  EXPECT_TRUE(sent().empty());
}

}  // namespace
}  // namespace weft::test

// The responder and the order of frames: gaps, duplicates, places in a message, lengths.
#include "unit/transport/responder_fixture.h"

namespace weft::test {
namespace {

using obs::Counter;
using queue::QpEvent;

TEST_F(Responder, asks_once_for_a_frame_that_is_missing) {
  end.post_receive(1, 0, 1024);
  end.deliver(send_frame(Opcode::kRcSendMiddle, 1, kMtu));
  expect_nak(0, NakCode::kPsnSequence);
  end.deliver(send_frame(Opcode::kRcSendMiddle, 2, kMtu));
  end.deliver(send_frame(Opcode::kRcSendLast, 3, 10));
  EXPECT_TRUE(end.answers().empty()) << "a second NAK for the same gap";
  end.deliver(send_frame(Opcode::kRcSendFirst, 0, kMtu));
  expect_ack(0, 0);
  end.deliver(send_frame(Opcode::kRcSendMiddle, 2, kMtu));
  expect_nak(1, NakCode::kPsnSequence);
  EXPECT_EQ(end.counted(Counter::kSequenceGaps), 4u);
  EXPECT_EQ(end.state(), QpState::kReadyToReceive);
}

TEST_F(Responder, forgets_a_nak_that_the_missing_frame_overtook) {
  end.post_receive(1, 0, 1024);
  end.deliver(send_frame(Opcode::kRcSendLast, 1, 10));
  end.deliver(send_frame(Opcode::kRcSendFirst, 0, kMtu, false));
  expect_ack(0, 0);
}

TEST_F(Responder, acknowledges_duplicates_and_does_not_execute_them) {
  end.post_receive(1, 0, 1024);
  end.post_receive(2, 1024, 1024);
  const Frame send = send_frame(Opcode::kRcSendOnly, 0, 100);
  const Frame write = write_frame(Opcode::kRcWriteOnly, 1, 8, 8);
  end.deliver(send);
  end.deliver(write);
  expect_ack(1, 2);
  end.exposed_memory()[0] = std::byte{0x55};
  end.deliver(send);
  expect_ack(1, 2);
  end.deliver(write);
  expect_ack(1, 2);
  EXPECT_EQ(end.exposed_memory()[0], std::byte{0x55}) << "the write was executed twice";
  EXPECT_EQ(end.take_receives().size(), 1u);
  EXPECT_EQ(end.qp.rq->posted(), 1u);
  EXPECT_EQ(end.counted(Counter::kDuplicates), 2u);
}

TEST_F(Responder, takes_the_last_2_23_numbers_for_duplicates_and_the_others_for_gaps) {
  end.deliver(send_frame(Opcode::kRcSendOnly, 0x800000, 4));  // 2^23 before the expected one
  EXPECT_EQ(end.counted(Counter::kDuplicates), 1u);
  expect_ack(0xFFFFFF, 0);
  end.deliver(send_frame(Opcode::kRcSendOnly, 0x7FFFFF, 4));
  expect_nak(0, NakCode::kPsnSequence);
}

TEST_F(Responder, counts_messages_and_not_frames_in_the_msn) {
  end.post_receive(1, 0, 4096);
  end.deliver(send_frame(Opcode::kRcSendFirst, 0, kMtu));
  expect_ack(0, 0);
  end.deliver(send_frame(Opcode::kRcSendLast, 1, 1));
  expect_ack(1, 1);
  end.deliver(write_frame(Opcode::kRcWriteOnly, 2, 4, 4));
  expect_ack(2, 2);
  end.responder.stream.start(kFirstPsn + 3, kMask24);
  end.deliver(write_frame(Opcode::kRcWriteOnly, 3, 4, 4));
  expect_ack(3, 0);
}

TEST_F(Responder, says_arrived_and_not_consumed) {
  // B2.5: the acknowledgement leaves although nobody has looked at the completion.
  end.post_receive(1, 0, 64);
  end.deliver(send_frame(Opcode::kRcSendOnly, 0, 64));
  expect_ack(0, 1);
  EXPECT_EQ(end.recv_cq.size(), 1u);
}

TEST_F(Responder, acknowledges_several_frames_with_one_when_it_may) {
  // B2.1
  end.post_receive(1, 0, 4096);
  end.deliver(send_frame(Opcode::kRcSendFirst, 0, kMtu, false));
  EXPECT_TRUE(end.answers().empty()) << "nobody asked";
  end.deliver(send_frame(Opcode::kRcSendMiddle, 1, kMtu, true));
  end.deliver(send_frame(Opcode::kRcSendLast, 2, 7, true));
  expect_ack(2, 1);
}

TEST_F(Responder, acknowledges_each_frame_when_told_so) {
  // B2.1
  end.qp.attributes.ack_policy = AckPolicy::kEachFrame;
  end.post_receive(1, 0, 4096);
  end.deliver(send_frame(Opcode::kRcSendFirst, 0, kMtu, false));
  expect_ack(0, 0);
  end.deliver(send_frame(Opcode::kRcSendMiddle, 1, kMtu, false));
  expect_ack(1, 0);
}

struct Step {
  wire::Opcode opcode;
  std::size_t payload;
};
struct BadOrder {
  const char* name;
  std::vector<Step> steps;  ///< the last one is the bad one
};

class ResponderOrder : public Responder, public testing::WithParamInterface<BadOrder> {};

TEST_P(ResponderOrder, refuses_it_as_invalid_request) {
  end.post_receive(1, 0, 4096);
  const auto& steps = GetParam().steps;
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    const Frame frame = write_frame(steps[i].opcode, i, steps[i].payload, 2 * kMtu + 10);
    if (i + 1 == steps.size()) {
      expect_fatal(frame, i, NakCode::kInvalidRequest);
    } else {
      end.deliver(frame);
      ASSERT_EQ(end.state(), QpState::kReadyToReceive);
      end.answers();
    }
  }
  EXPECT_EQ(end.sink.count(QpEvent::kRequestError), 1u);
  // The buffer that an unfinished message had taken comes back, flushed, once.
  end.settle();
  const auto receives = end.take_receives();
  ASSERT_EQ(receives.size(), 1u);
  EXPECT_EQ(receives[0].status, CompletionStatus::kFlushed);
}

using enum wire::Opcode;
const BadOrder kBadOrders[] = {
    {"send_middle_without_first", {{kRcSendMiddle, kMtu}}},
    {"send_last_without_first", {{kRcSendLast, 5}}},
    {"write_middle_without_first", {{kRcWriteMiddle, kMtu}}},
    {"write_last_without_first", {{kRcWriteLast, 5}}},
    {"first_inside_a_send", {{kRcSendFirst, kMtu}, {kRcSendFirst, kMtu}}},
    {"only_inside_a_send", {{kRcSendFirst, kMtu}, {kRcSendOnly, 5}}},
    {"write_middle_inside_a_send", {{kRcSendFirst, kMtu}, {kRcWriteMiddle, kMtu}}},
    {"write_last_inside_a_send", {{kRcSendFirst, kMtu}, {kRcWriteLast, 5}}},
    {"send_middle_inside_a_write", {{kRcWriteFirst, kMtu}, {kRcSendMiddle, kMtu}}},
    {"send_last_inside_a_write", {{kRcWriteFirst, kMtu}, {kRcSendLast, 5}}},
    {"write_first_inside_a_write", {{kRcWriteFirst, kMtu}, {kRcWriteFirst, kMtu}}},
    {"read_inside_a_send", {{kRcSendFirst, kMtu}, {kRcReadRequest, 0}}},
    {"read_inside_a_write", {{kRcWriteFirst, kMtu}, {kRcReadRequest, 0}}},
    {"atomic_inside_a_send", {{kRcSendFirst, kMtu}, {kRcFetchAdd, 0}}},
    {"short_send_first", {{kRcSendFirst, kMtu - 4}}},
    {"long_send_first", {{kRcSendFirst, kMtu + 4}}},
    {"short_send_middle", {{kRcSendFirst, kMtu}, {kRcSendMiddle, kMtu - 1}}},
    {"long_send_middle", {{kRcSendFirst, kMtu}, {kRcSendMiddle, kMtu + 1}}},
    {"empty_send_last", {{kRcSendFirst, kMtu}, {kRcSendLast, 0}}},
    {"long_send_last", {{kRcSendFirst, kMtu}, {kRcSendLast, kMtu + 1}}},
    {"long_send_only", {{kRcSendOnly, kMtu + 1}}},
    {"short_write_first", {{kRcWriteFirst, kMtu - 1}}},
    {"long_write_first", {{kRcWriteFirst, kMtu + 1}}},
    {"empty_write_middle", {{kRcWriteFirst, kMtu}, {kRcWriteMiddle, 0}}},
    {"empty_write_last", {{kRcWriteFirst, kMtu}, {kRcWriteMiddle, kMtu}, {kRcWriteLast, 0}}},
    {"write_that_ends_early", {{kRcWriteFirst, kMtu}, {kRcWriteLast, 10}}},
    {"write_that_ends_one_byte_short",
     {{kRcWriteFirst, kMtu}, {kRcWriteMiddle, kMtu}, {kRcWriteLast, 9}}},
    {"write_that_ends_one_byte_late",
     {{kRcWriteFirst, kMtu}, {kRcWriteMiddle, kMtu}, {kRcWriteLast, 11}}},
    {"write_that_goes_on_past_its_length",
     {{kRcWriteFirst, kMtu}, {kRcWriteMiddle, kMtu}, {kRcWriteMiddle, kMtu}}},
    {"write_only_shorter_than_announced", {{kRcWriteOnly, 10}}},
};
INSTANTIATE_TEST_SUITE_P(Drill, ResponderOrder, testing::ValuesIn(kBadOrders),
                         [](const auto& tested) { return tested.param.name; });

TEST_F(Responder, refuses_what_is_no_request) {
  const Frame frame = forge(headers_of(Opcode::kRcAcknowledge, kFirstPsn));
  transport::on_request(end.responder, end.qp, frame.packet());
  expect_nak(0, NakCode::kInvalidRequest);
  EXPECT_EQ(end.state(), QpState::kError);
}

TEST_F(Responder, refuses_a_write_only_with_more_bytes_than_announced) {
  expect_fatal(write_frame(Opcode::kRcWriteOnly, 0, 9, 8), 0, NakCode::kInvalidRequest);
}

TEST_F(Responder, refuses_a_write_first_that_already_has_all_bytes) {
  expect_fatal(write_frame(Opcode::kRcWriteFirst, 0, kMtu, kMtu), 0, NakCode::kInvalidRequest);
}

TEST_F(Responder, refuses_bytes_in_a_write_of_nothing) {
  expect_fatal(write_frame(Opcode::kRcWriteOnly, 0, 4, 0), 0, NakCode::kInvalidRequest);
}

TEST_F(Responder, refuses_writes_over_2_31) {
  expect_fatal(write_frame(Opcode::kRcWriteFirst, 0, kMtu, (1u << 31) + 1), 0,
               NakCode::kInvalidRequest);
  EXPECT_EQ(end.counted(Counter::kRefusedAccesses), 0u);
}

TEST_F(Responder, refuses_reads_over_2_31) {
  expect_fatal(read_frame(0, (1u << 31) + 1), 0, NakCode::kInvalidRequest);
}

TEST_F(Responder, does_not_look_at_frames_in_states_that_do_not_receive) {
  for (const QpState state : {QpState::kReset, QpState::kInit, QpState::kError}) {
    RcEnd other(responder_setup());
    other.post_receive(1, 0, 64);
    other.qp.state = state;
    other.deliver(send_frame(Opcode::kRcSendOnly, 0, 4));
    other.deliver(read_frame(1, 4, other.remote()));
    EXPECT_TRUE(other.answers().empty()) << to_string(state);
    EXPECT_EQ(other.qp.rq->posted(), 1u);
    EXPECT_EQ(other.counted(Counter::kWrongState), 2u);
    EXPECT_EQ(other.state(), state);
  }
}

TEST_F(Responder, receives_in_every_state_that_does) {
  for (const QpState state : {QpState::kReadyToReceive, QpState::kReadyToSend,
                              QpState::kSendQueueDrained, QpState::kSendQueueError}) {
    RcEnd other(responder_setup());
    other.post_receive(1, 0, 64);
    other.qp.state = state;
    other.deliver(send_frame(Opcode::kRcSendOnly, 0, 4));
    EXPECT_EQ(other.answers().size(), 1u) << to_string(state);
    EXPECT_EQ(other.take_receives().size(), 1u);
  }
}

TEST_F(Responder, tells_once_that_communication_is_established) {
  end.post_receive(1, 0, 64);
  end.post_receive(2, 0, 64);
  end.deliver(send_frame(Opcode::kRcSendOnly, 0, 4));
  end.deliver(send_frame(Opcode::kRcSendOnly, 1, 4));
  EXPECT_EQ(end.sink.count(QpEvent::kCommEstablished), 1u);
}

}  // namespace
}  // namespace weft::test

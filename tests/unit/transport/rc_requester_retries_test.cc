// The requester and time: retries, receiver not ready, delay, local work that waits.
#include "unit/transport/requester_fixture.h"

namespace weft::test {
namespace {

using obs::Counter;
using transport::next_deadline;
using transport::rnr_timer_ns;

TEST_F(Requester, sends_again_after_the_time_out_and_gives_up_after_the_last_retry) {
  // B2.1
  post(1, SendOp::kSend, 2 * kMtu);
  post(2, SendOp::kWrite, 10);
  EXPECT_EQ(sent(), (Numbers{0, 1, 2}));
  for (int retry = 0; retry < 3; ++retry) {
    const Nanoseconds due = next_deadline(end.requester);
    EXPECT_EQ(due, end.now() + kTimeout);
    end.advance_to(due - 1);
    EXPECT_TRUE(sent().empty()) << "too early";
    end.advance_to(due);
    EXPECT_EQ(sent(), (Numbers{0, 1, 2}));
  }
  end.advance_to(next_deadline(end.requester));
  expect_failure(CompletionStatus::kRetryExceeded, {1, 2});
  EXPECT_EQ(end.counted(Counter::kTimeouts), 4u);
  EXPECT_EQ(end.counted(Counter::kRetransmissions), 3u);
}

TEST_F(Requester, has_all_retries_again_after_progress) {
  post(1, SendOp::kSend, 10);
  post(2, SendOp::kSend, 10);
  sent();
  for (int round = 0; round < 3; ++round) {
    end.advance_to(next_deadline(end.requester));
    sent();
  }
  ack(0);
  EXPECT_EQ(completed(), Ids{1});
  for (int round = 0; round < 3; ++round) {
    end.advance_to(next_deadline(end.requester));
    EXPECT_EQ(sent(), Numbers{1});
  }
  EXPECT_EQ(end.state(), QpState::kReadyToSend);
}

/// One message that was acknowledged soon, so that the round trip is known; then one of four
/// frames.
class ProbingRequester : public Requester {
 protected:
  void send_four_frames() {
    end.qp.attributes.timeout = 14;
    post(1, SendOp::kSend, 10);
    EXPECT_EQ(sent(), Numbers{0});
    end.now() += 100'000;
    ack(0);
    window_before = end.requester.stream.window().frames();
    post(2, SendOp::kSend, 4 * kMtu);
    EXPECT_EQ(sent(), (Numbers{1, 2, 3, 4}));
  }
  std::uint32_t window_before = 0;
};

TEST_F(Requester, probes_early_once_it_knows_the_round_trip_and_keeps_the_retries_for_later) {
  // B2.1
  end.qp.attributes.timeout = 14;
  const Nanoseconds timeout = transport::ack_timeout_ns(14);
  post(1, SendOp::kSend, 10);
  EXPECT_EQ(sent(), Numbers{0});
  end.now() += 100'000;
  ack(0);
  EXPECT_EQ(completed(), Ids{1});
  post(2, SendOp::kSend, 10);
  EXPECT_EQ(sent(), Numbers{1});
  const Nanoseconds begun = end.now();
  int early = 0;
  for (; end.counted(Counter::kTimeouts) == 0 && early < 20; ++early) {
    const Nanoseconds due = next_deadline(end.requester);
    ASSERT_LE(due, begun + timeout);
    end.advance_to(due);
    EXPECT_EQ(sent(), Numbers{1});
  }
  EXPECT_GT(early, 3) << "each waits twice as long as the one before";
  EXPECT_EQ(end.now(), begun + timeout) << "probes do not change when it counts";
  EXPECT_EQ(end.requester.stream.retries_left(), end.qp.attributes.retry_count - 1);
  ack(1);
  EXPECT_EQ(completed(), Ids{2});
}

TEST_F(Requester, probes_after_a_short_time_out_and_counts_it_after_four) {
  // B2.1
  end.qp.attributes.timeout = 10;
  const Nanoseconds asked = transport::asked_timeout_ns(10), begun = end.now();
  post(1, SendOp::kSend, 10);
  EXPECT_EQ(sent(), Numbers{0});
  for (unsigned times = 1; times <= 4; ++times) {
    EXPECT_EQ(end.counted(Counter::kTimeouts), 0u) << times;
    EXPECT_EQ(next_deadline(end.requester), begun + times * asked);
    end.advance_to(begun + times * asked);
    EXPECT_EQ(sent(), Numbers{0}) << times;
  }
  EXPECT_EQ(end.counted(Counter::kTimeouts), 1u);
  EXPECT_EQ(end.requester.stream.retries_left(), end.qp.attributes.retry_count - 1);
}

TEST_F(ProbingRequester, goes_back_when_a_probe_was_all_that_arrived) {
  // B2.1
  send_four_frames();
  end.advance_to(next_deadline(end.requester));
  EXPECT_EQ(sent(), Numbers{1});
  ack(1);
  EXPECT_EQ(sent(), (Numbers{2, 3, 4}));
  ack(4);
  EXPECT_EQ(completed(), (Ids{1, 2}));
}

TEST_F(ProbingRequester, sends_again_long_before_the_time_out_what_was_lost_a_second_time) {
  // B2.1
  send_four_frames();
  nak(1, NakCode::kPsnSequence);
  EXPECT_EQ(sent(), (Numbers{1, 2, 3, 4}));
  for (int again = 0; again < 3; ++again) {
    end.advance_to(next_deadline(end.requester));
    EXPECT_EQ(sent(), (Numbers{1, 2, 3, 4}));
  }
  EXPECT_EQ(end.counted(Counter::kTimeouts), 0u) << "none of the program's retries";
  ack(4);
  EXPECT_EQ(completed(), (Ids{1, 2}));
}

TEST_F(ProbingRequester, sends_nothing_more_when_a_probe_finds_everything_there) {
  send_four_frames();
  end.advance_to(next_deadline(end.requester));
  EXPECT_EQ(sent(), Numbers{1});
  ack(4);
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(completed(), (Ids{1, 2}));
  EXPECT_GE(end.requester.stream.window().frames(), window_before) << "the peer only slept";
}

TEST_F(Requester, probes_later_where_answers_came_late_and_early_again_when_they_are_quick) {
  end.qp.attributes.timeout = 18;
  std::uint32_t number = 0;
  const auto send_one = [&] {
    post(number + 1, SendOp::kSend, 10);
    EXPECT_EQ(sent(), Numbers{number});
    return next_deadline(end.requester) - end.now();
  };
  const auto answer = [&](Nanoseconds after) {
    end.now() += after;
    ack(number++);
  };
  send_one();
  answer(100'000);
  const Nanoseconds early = send_one();
  // The peer has lost its core for 5 ms: the answer is to the frame that went out first.
  end.advance_to(next_deadline(end.requester));
  EXPECT_EQ(sent(), Numbers{number}) << "a probe";
  answer(5'000'000 - early);
  const Nanoseconds later = send_one();
  EXPECT_GE(later, 5'000'000u) << "the next time it would wait as long";
  answer(100'000);
  for (int i = 0; i < 100; ++i) {
    send_one();
    answer(100'000);
  }
  EXPECT_EQ(send_one(), early);
}

TEST_F(Requester, offers_again_after_a_pause_what_a_busy_port_did_not_take) {
  post(1, SendOp::kSend, 3 * kMtu);
  post(2, SendOp::kRead, 10);
  const auto frames = end.requests();
  ASSERT_EQ(frames.size(), 4u);
  transport::on_busy(end.requester, end.qp, end.qp.sq.head(), kSendPsn + 1, 1, end.now());
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(end.requester.reads_outstanding, 0);
  end.now() = next_deadline(end.requester);
  EXPECT_EQ(sent(), (Numbers{1, 2, 3}));
  EXPECT_EQ(end.counted(Counter::kRetransmissions), 0u);
}

TEST_F(Requester, waits_for_ever_without_a_time_out) {
  end.qp.attributes.timeout = 0;
  post(1, SendOp::kSend, 10);
  sent();
  EXPECT_EQ(next_deadline(end.requester), kNever);
}

TEST_F(Requester, moves_its_time_out_with_each_acknowledgement) {
  post(1, SendOp::kSend, 10);
  post(2, SendOp::kSend, 10);
  sent();
  end.now() += kTimeout / 2;
  ack(0);
  EXPECT_EQ(next_deadline(end.requester), end.now() + kTimeout);
}

TEST_F(Requester, waits_as_long_as_the_receiver_asks_then_sends_again) {
  post(1, SendOp::kSend, 10);
  post(2, SendOp::kSend, 10);
  sent();
  rnr(0, 14);
  const Nanoseconds due = end.now() + rnr_timer_ns(14);
  EXPECT_EQ(next_deadline(end.requester), due);
  rnr(0, 14);
  rnr(0, 31);
  EXPECT_EQ(next_deadline(end.requester), due) << "a copy does not prolong the wait";
  end.now() = due - 1;
  EXPECT_TRUE(sent().empty());
  end.now() = due;
  EXPECT_EQ(sent(), (Numbers{0, 1}));
  ack(1);
  EXPECT_EQ(completed(), (Ids{1, 2}));
}

TEST_F(Requester, gives_up_when_the_receiver_is_not_ready_too_often) {
  post(1, SendOp::kSend, 10);
  post(2, SendOp::kSend, 10);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(sent(), (Numbers{0, 1}));
    rnr(0);
    end.now() = next_deadline(end.requester);
  }
  EXPECT_EQ(sent(), (Numbers{0, 1}));
  rnr(0);
  expect_failure(CompletionStatus::kRnrRetryExceeded, {1, 2});
}

TEST_F(Requester, gives_up_at_once_with_no_receiver_retries) {
  end.qp.attributes.rnr_retry = 0;
  transport::start(end.requester, end.qp);
  post(1, SendOp::kSend, 10);
  sent();
  rnr(0);
  expect_failure(CompletionStatus::kRnrRetryExceeded);
}

TEST_F(Requester, tries_a_receiver_for_ever_with_seven) {
  end.qp.attributes.rnr_retry = 7;
  transport::start(end.requester, end.qp);
  post(1, SendOp::kSend, 10);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(sent(), Numbers{0});
    rnr(0);
    end.now() = next_deadline(end.requester);
  }
  EXPECT_EQ(end.state(), QpState::kReadyToSend);
}

TEST_F(Requester, ends_the_wait_when_the_frame_turns_out_to_have_arrived) {
  // A second copy of the frame found a buffer: its acknowledgement comes during the wait.
  post(1, SendOp::kSend, 10);
  sent();
  rnr(0, 31);
  ack(0);
  EXPECT_EQ(completed(), Ids{1});
  EXPECT_EQ(next_deadline(end.requester), kNever) << "a deadline for nothing, and for ever";
  post(2, SendOp::kSend, 10);
  EXPECT_EQ(sent(), Numbers{1}) << "the wait was for a frame that has arrived";
}

TEST_F(Requester, holds_the_queue_for_a_delay) {
  // B1.5
  post(1, SendOp::kSend, 10);
  post(2, SendOp::kDelay, 0, {.delay_ns = 1000});
  post(3, SendOp::kSend, 10);
  EXPECT_EQ(sent(), Numbers{0});
  const Nanoseconds due = end.now() + 1000;
  EXPECT_EQ(next_deadline(end.requester), due);
  end.now() = due - 1;
  EXPECT_TRUE(sent().empty());
  end.now() = due;
  EXPECT_EQ(sent(), Numbers{1});
  EXPECT_TRUE(completed().empty()) << "the delay completes in its turn";
  ack(1);
  EXPECT_EQ(completed(), (Ids{1, 2, 3}));
}

TEST_F(Requester, names_no_deadline_of_a_delay_that_it_cannot_reach) {
  // A deadline that stays in the past would make the progress engine spin.
  post(1, SendOp::kSend, 10);
  post(2, SendOp::kDelay, 0, {.delay_ns = 1000});
  post(3, SendOp::kSend, 10);
  EXPECT_EQ(sent(), Numbers{0});
  const Nanoseconds start = end.now();
  rnr(0, 31);
  end.now() = start + 1000;
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(next_deadline(end.requester), start + rnr_timer_ns(31));
  end.now() = start + rnr_timer_ns(31);
  EXPECT_EQ(sent(), (Numbers{0, 1})) << "the delay ran from when it was first reached";
}

TEST_F(Requester, reaches_a_delay_again_after_going_back) {
  post(1, SendOp::kSend, 10);
  post(2, SendOp::kDelay, 0, {.delay_ns = 10 * kTimeout});
  post(3, SendOp::kSend, 10);
  EXPECT_EQ(sent(), Numbers{0});
  const Nanoseconds due = end.now() + 10 * kTimeout;
  end.advance_to(next_deadline(end.requester));
  EXPECT_EQ(sent(), Numbers{0});
  ack(0);
  EXPECT_EQ(next_deadline(end.requester), due);
  end.now() = due;
  EXPECT_EQ(sent(), Numbers{1});
}

TEST_F(Requester, invalidates_a_key_only_when_all_earlier_work_is_complete) {
  const auto once = end.expose(Access::kLocalWrite | kAllRemote | Access::kOneShot);
  post(1, SendOp::kSend, 10);
  post(2, SendOp::kLocalInvalidate, 0, {.invalidate_key = once.rkey});
  post(3, SendOp::kSend, 10);
  EXPECT_EQ(sent(), Numbers{0});
  const memory::RemoteAccess access{kPd, end.qp.qpn,          end.remote().address,
                                    4,   Access::kRemoteRead, 1};
  EXPECT_TRUE(end.keys.check_remote(once.rkey, access).has_value());
  memory::Flight::clear(memory::Hold::kRemote);
  ack(0);
  EXPECT_EQ(sent(), Numbers{1});
  EXPECT_FALSE(end.keys.check_remote(once.rkey, access).has_value());
  ack(1);
  EXPECT_EQ(completed(), (Ids{1, 2, 3}));
}

TEST_F(Requester, fails_an_invalidate_of_a_key_that_is_not_of_that_kind) {
  post(1, SendOp::kLocalInvalidate, 0, {.invalidate_key = end.exposed.rkey});
  post(2, SendOp::kSend, 10);
  EXPECT_TRUE(sent().empty());
  expect_failure(CompletionStatus::kLocalQpOperationError, {1, 2});
}

TEST_F(Requester, binds_in_order_with_the_work_around_it) {
  // B4.6: the bind is work of the send queue.
  const RemoteKey window = *end.keys.allocate_window(kPd, memory::WindowType::kType1);
  SendRequest bind;
  bind.bind = {window, 0, end.own.lkey, end.address(), 100, Access::kRemoteRead};
  post(1, SendOp::kSend, 10);
  post(2, SendOp::kBind, 0, bind);
  post(3, SendOp::kSend, 10);
  EXPECT_EQ(sent(), (Numbers{0, 1}));
  EXPECT_TRUE(completed().empty());
  nak(0, NakCode::kPsnSequence);
  EXPECT_EQ(sent(), (Numbers{0, 1})) << "a bind is not done again";
  ack(1);
  EXPECT_EQ(completed(), (Ids{1, 2, 3}));
  const memory::RemoteAccess access{kPd, end.qp.qpn, end.address(), 100, Access::kRemoteRead, 1};
  EXPECT_TRUE(end.keys.check_remote(memory::KeyTable::next_key(window), access).has_value());
  memory::Flight::clear(memory::Hold::kRemote);
}

TEST_F(Requester,
       passes_over_finished_local_work_when_an_acknowledgement_overtakes_its_going_back) {
  post(1, SendOp::kSend, 10);
  post(2, SendOp::kDelay, 0, {.delay_ns = 0});
  post(3, SendOp::kDelay, 0, {.delay_ns = 0});
  post(4, SendOp::kSend, 10);
  EXPECT_EQ(sent(), (Numbers{0, 1}));
  end.advance_to(next_deadline(end.requester));
  ack(0);
  EXPECT_EQ(completed(), (Ids{1, 2, 3}));
  EXPECT_EQ(sent(), Numbers{1});
  ack(1);
  EXPECT_EQ(completed(), Ids{4});
}

TEST_F(Requester, does_local_work_only_when_what_was_built_has_been_sent) {
  // Local work waits for those who use memory. Two threads that wait for what the other is about to
  // send would wait for ever.
  const auto window = *end.keys.allocate_window(kPd, memory::WindowType::kType1);
  SendRequest bind;
  bind.bind = {window, 0, end.own.lkey, end.address(), 100, Access::kRemoteRead};
  post(1, SendOp::kWrite, 8);
  post(2, SendOp::kBind, 0, bind);
  post(3, SendOp::kWrite, 8);
  network::OutFrame first, second;
  ASSERT_TRUE(transport::next_request(end.requester, end.qp, end.now(), first));
  EXPECT_FALSE(transport::next_request(end.requester, end.qp, end.now(), second));
  EXPECT_TRUE(transport::waits_for_sending(end.requester, end.qp));
  memory::Flight::release_kept();
  EXPECT_FALSE(transport::waits_for_sending(end.requester, end.qp));
  EXPECT_TRUE(transport::next_request(end.requester, end.qp, end.now(), second));
  memory::Flight::release_kept();
}

TEST_F(Requester, reports_a_bind_that_fails_after_the_work_before_it) {
  // B4.7
  SendRequest bind;
  bind.bind = {RemoteKey(0x1234), 0, end.own.lkey, end.address(), 100, Access::kRemoteRead};
  post(1, SendOp::kSend, 10);
  post(2, SendOp::kBind, 0, bind);
  post(3, SendOp::kSend, 10);
  EXPECT_EQ(sent(), Numbers{0});
  ack(0);
  EXPECT_EQ(end.state(), QpState::kError);
  end.settle();
  const auto all = end.take_sends();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(all[0].ok());
  EXPECT_EQ(all[1].status, CompletionStatus::kWindowBindError);
  EXPECT_EQ(all[2].status, CompletionStatus::kFlushed);
}

}  // namespace
}  // namespace weft::test

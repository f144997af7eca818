// The states of a queue pair as a program sees them, over every path: peers that are not there,
// draining, errors, reset, destruction.
#include <poll.h>

#include <array>

#include "support/path_suite.h"

namespace weft::test {
namespace {

/// A time-out of 4 ms, tried three times: a peer that is not there costs a few milliseconds.
QueuePairAttributes short_patience() {
  QueuePairAttributes attributes;
  attributes.timeout = 10;
  attributes.retry_count = 2;
  return attributes;
}

class PathStates : public PathSuite {};
INSTANTIATE_TEST_SUITE_P(Over, PathStates, testing::ValuesIn(all_ways()), way_name);

TEST_P(PathStates, a_peer_that_never_connects_is_given_up) {
  Memory from(a, 8), to(b, 8);
  const auto give_up = [&](QueuePair& qa) {
    const auto start = Steady::now();
    post(qa, {.wr_id = 1, .op = SendOp::kWrite, .remote = to.remote()}, {from.sge()});
    post(qa, {.wr_id = 2, .op = SendOp::kWrite, .remote = to.remote()}, {from.sge()});
    EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kRetryExceeded));
    EXPECT_TRUE(has_failed(next(a.sends), 2, CompletionStatus::kFlushed));
    EXPECT_GE(Steady::now() - start, std::chrono::milliseconds(12)) << "1 try, 2 retries";
    EXPECT_EQ(qa.state(), QpState::kError);
  };
  QueuePair qa = a.create(), qb = b.create();
  must(qa.connect(qb.endpoint(), short_patience()));
  give_up(qa);  // it is in RESET
  QueuePair other = a.create();
  must(other.connect({b.device.address(), Qpn(5), Psn(1)}, short_patience()));
  give_up(other);  // there is none of that number
  EXPECT_TRUE(to.is_zero());
}

TEST_P(PathStates, a_peer_that_connects_late_is_waited_for) {
  QueuePair qa = a.create(), qb = b.create();
  const Endpoint end_a = qa.endpoint();
  QueuePairAttributes attributes;
  attributes.timeout = 12;
  must(qa.connect(qb.endpoint(), attributes));
  Memory from(a, 8), to(b, 8);
  from.fill(1);
  post(qa, {.wr_id = 1, .op = SendOp::kWrite, .remote = to.remote()}, {from.sge()});
  EXPECT_TRUE(is_quiet(a.sends));
  must(qb.connect(end_a));
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kWrite, 8));
  EXPECT_TRUE(to.holds(1));
}

TEST_P(PathStates, a_peer_of_somebody_else_is_not_reached) {
  // A queue pair serves the address that it is connected to, and nobody else.
  Link link = connect();
  const Node c(open());
  QueuePair stranger = c.create();
  Endpoint end_b = link.b.endpoint();
  end_b.psn = link.a.endpoint().psn;  // even one that knows which number comes next
  QueuePairAttributes attributes = short_patience();
  attributes.send_psn = end_b.psn;
  connect_at(stranger, end_b, attributes);
  Memory from(c, 8), inbox(b, 8), to(b, 8);
  from.fill(2);
  post_receive(link.b, 50, {inbox.sge()});
  post(stranger, {.wr_id = 1, .op = SendOp::kSend}, {from.sge()});
  EXPECT_TRUE(has_failed(next(c.sends), 1, CompletionStatus::kRetryExceeded));
  EXPECT_TRUE(inbox.is_zero());
  EXPECT_EQ(link.b.state(), QpState::kReadyToSend);
}

TEST_P(PathStates, a_destroyed_peer_is_given_up) {
  Link link = connect({}, short_patience());
  Memory from(a, 8), to(b, 8);
  post(link.a, {.wr_id = 1, .op = SendOp::kWrite, .remote = to.remote()}, {from.sge()});
  EXPECT_TRUE(next(a.sends).ok());
  { const QueuePair gone = std::move(link.b); }
  to.fill(3);
  post(link.a, {.wr_id = 2, .op = SendOp::kWrite, .remote = to.remote()}, {from.sge()});
  EXPECT_TRUE(has_failed(next(a.sends), 2, CompletionStatus::kRetryExceeded));
  EXPECT_TRUE(to.holds(3));
}

TEST_P(PathStates, a_failed_peer_is_given_up) {
  Link link = connect({}, short_patience());
  Memory from(a, 8), to(b, 8);
  must(link.b.modify(QpState::kError));
  post(link.a, {.wr_id = 1, .op = SendOp::kWrite, .remote = to.remote()}, {from.sge()});
  EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kRetryExceeded));
}

TEST_P(PathStates, moving_to_error_flushes_everything_once_and_in_order) {
  Link link = connect();
  Memory memory(a, 8), far(b, 8);
  for (std::uint64_t i = 0; i < 5; ++i) post_receive(link.a, 50 + i, {memory.sge()});
  // Held back by the delay, so that all of it is outstanding.
  post(link.a, {.wr_id = 0, .op = SendOp::kDelay, .delay_ns = 3'600'000'000'000});
  for (std::uint64_t i = 1; i < 5; ++i) {
    const SendFlags flags = i % 2 == 0 ? SendFlags::kNone : SendFlags::kSignaled;
    post(link.a, {.wr_id = i, .op = SendOp::kWrite, .flags = flags, .remote = far.remote()},
         {memory.sge()});
  }
  must(link.a.modify(QpState::kError));
  for (std::uint64_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(has_failed(next(a.sends), i, CompletionStatus::kFlushed));
    EXPECT_TRUE(has_failed(next(a.receives), 50 + i, CompletionStatus::kFlushed));
  }
  must(link.a.modify(QpState::kError));
  EXPECT_TRUE(is_quiet(a.sends));
  EXPECT_TRUE(is_quiet(a.receives));
  // What is posted from now on comes back as well.
  post(link.a, {.wr_id = 9, .op = SendOp::kWrite, .remote = far.remote()}, {memory.sge()});
  post_receive(link.a, 59, {memory.sge()});
  EXPECT_TRUE(has_failed(next(a.sends), 9, CompletionStatus::kFlushed));
  EXPECT_TRUE(has_failed(next(a.receives), 59, CompletionStatus::kFlushed));
  EXPECT_TRUE(far.is_zero());
}

TEST_P(PathStates, moving_to_error_in_mid_message_gives_the_receive_buffer_back_once) {
  Link link = connect();
  Memory from(a, 4 << 20), to(b, 4 << 20);
  post_receive(link.b, 50, {to.sge()});
  post_receive(link.b, 51, {to.sge()});
  post(link.a, {.wr_id = 1, .op = SendOp::kSend}, {from.sge()});
  pump();
  must(link.b.modify(QpState::kError));
  EXPECT_EQ(next(b.receives).wr_id, 50u);
  EXPECT_TRUE(has_failed(next(b.receives), 51, CompletionStatus::kFlushed));
  EXPECT_TRUE(is_quiet(b.receives));
  must(link.a.modify(QpState::kError));
}

TEST_P(PathStates, reset_forgets_everything_and_allows_another_connection) {
  Link link = connect();
  Memory near(a, 64), far(b, 64);
  for (int round = 0; round < 3; ++round) {
    post_receive(link.a, 50, {near.sge()});
    post_receive(link.b, 51, {far.sge()});
    post(link.a, {.wr_id = 1, .op = SendOp::kDelay, .delay_ns = 3'600'000'000'000});
    post(link.a, {.wr_id = 2, .op = SendOp::kSend}, {near.sge()});
    must(link.a.modify(QpState::kReset));
    must(link.b.modify(QpState::kReset));
    EXPECT_EQ(link.a.state(), QpState::kReset);
    EXPECT_TRUE(is_quiet(a.sends));
    EXPECT_TRUE(is_quiet(a.receives));
    EXPECT_TRUE(is_quiet(b.receives));
    reconnect(link);
    near.fill(static_cast<std::uint32_t>(round) + 10);
    post_receive(link.b, 52, {far.sge()});
    post(link.a, {.wr_id = 3, .op = SendOp::kSend}, {near.sge()});
    EXPECT_TRUE(is_done(next(b.receives), 52, CompletionOp::kReceive, 64)) << "not the old buffer";
    EXPECT_TRUE(is_done(next(a.sends), 3, CompletionOp::kSend, 64));
    EXPECT_TRUE(far.holds(static_cast<std::uint32_t>(round) + 10));
  }
}

TEST_P(PathStates, an_error_is_left_by_reset) {
  Link link = connect();
  Memory near(a, 8), far(b, 8);
  near.fill(4);
  post(link.a, {.wr_id = 1, .op = SendOp::kWrite, .remote = far.remote(1)}, {near.sge()});
  EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kRemoteAccessError));
  EXPECT_TRUE(wait_until([&] { return link.b.state() == QpState::kError; }));
  must(link.a.modify(QpState::kReset));
  must(link.b.modify(QpState::kReset));
  reconnect(link);
  post(link.a, {.wr_id = 2, .op = SendOp::kWrite, .remote = far.remote()}, {near.sge()});
  EXPECT_TRUE(is_done(next(a.sends), 2, CompletionOp::kWrite, 8));
  EXPECT_TRUE(far.holds(4));
}

TEST_P(PathStates, destruction_with_work_outstanding_takes_it_along) {
  Memory near(a, 4 << 20), far(b, 4 << 20);
  for (int round = 0; round < 20; ++round) {
    Link link = connect();
    post_receive(link.a, 50, {near.sge()});
    post_receive(link.b, 51, {far.sge()});
    const SendOp op = round % 2 == 0 ? SendOp::kSend : SendOp::kRead;
    post(link.a, {.wr_id = 1, .op = op, .remote = far.remote()}, {near.sge()});
    post(link.a, {.wr_id = 2, .op = SendOp::kDelay, .delay_ns = 3'600'000'000'000});
    if (round % 3 == 0) pump();
  }
  pump_a_while();
  std::array<Completion, 64> left;
  // What completed before the end may be here, nothing else.
  for (const CompletionQueue* cq : {&a.sends, &a.receives, &b.receives}) {
    const std::size_t n = cq->poll(left);
    for (std::size_t i = 0; i < n; ++i) EXPECT_TRUE(left[i].ok());
    EXPECT_TRUE(is_quiet(*cq));
  }
}

/// Nothing happens but by the test's own calls, so that it knows what has begun.
class PathDraining : public PathSuite {
 protected:
  PathDraining() : PathSuite(DeviceShape{.helper = false}) {}
};
INSTANTIATE_TEST_SUITE_P(Over, PathDraining, testing::ValuesIn(all_ways()), way_name);

TEST_P(PathDraining, draining_finishes_what_was_begun_and_holds_the_rest) {
  Link link = connect();
  Memory near(a, 8), far(b, 16);
  near.fill(5);
  constexpr std::chrono::milliseconds kPause{20};
  const auto start = Steady::now();
  post(link.a, {.wr_id = 1, .op = SendOp::kDelay, .delay_ns = 20'000'000});
  post(link.a, {.wr_id = 2, .op = SendOp::kWrite, .remote = far.remote()}, {near.sge()});
  must(link.a.modify(QpState::kSendQueueDrained));
  const AsyncEvent event = next_event(a);
  EXPECT_EQ(event.kind, AsyncEventKind::kSendQueueDrained);
  EXPECT_EQ(event.qpn, link.a.number());
  EXPECT_GE(Steady::now() - start, kPause) << "the delay had begun";
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kDelay, 0));
  post(link.a, {.wr_id = 3, .op = SendOp::kWrite, .remote = far.remote(8)}, {near.sge()});
  EXPECT_TRUE(is_quiet(a.sends));
  EXPECT_TRUE(far.is_zero());
  must(link.a.modify(QpState::kReadyToSend));
  EXPECT_TRUE(is_done(next(a.sends), 2, CompletionOp::kWrite, 8));
  EXPECT_TRUE(is_done(next(a.sends), 3, CompletionOp::kWrite, 8));
  EXPECT_TRUE(far.holds(5, 0, 8) && far.holds(5, 8, 8));
}

TEST_P(PathDraining, draining_is_told_each_time) {
  Link link = connect();
  Memory near(a, 1 << 18), far(b, 1 << 18);
  for (std::uint64_t round = 0; round < 3; ++round) {
    post(link.a, {.wr_id = round, .op = SendOp::kWrite, .remote = far.remote()}, {near.sge()});
    must(link.a.modify(QpState::kSendQueueDrained));
    EXPECT_EQ(next_event(a).kind, AsyncEventKind::kSendQueueDrained);
    EXPECT_TRUE(is_done(next(a.sends), round, CompletionOp::kWrite, 1 << 18));
    EXPECT_FALSE(a.device.next_event().has_value());
    // Resumed into something that takes time, then drained again.
    post(link.a, {.wr_id = 100, .op = SendOp::kDelay, .delay_ns = 5'000'000});
    must(link.a.modify(QpState::kReadyToSend));
    must(link.a.modify(QpState::kSendQueueDrained));
    EXPECT_EQ(next_event(a).kind, AsyncEventKind::kSendQueueDrained);
    EXPECT_TRUE(is_done(next(a.sends), 100, CompletionOp::kDelay, 0));
    must(link.a.modify(QpState::kReadyToSend));
  }
}

TEST_P(PathDraining, events_of_a_queue_pair_that_is_gone_are_gone) {
  const int fd = must(a.device.event_fd());
  {
    Link link = connect();
    must(link.a.modify(QpState::kSendQueueDrained));
    pollfd told{fd, POLLIN, 0};
    ASSERT_EQ(poll(&told, 1, 10'000), 1);
  }
  pollfd told{fd, POLLIN, 0};
  EXPECT_EQ(poll(&told, 1, 0), 0);
  EXPECT_FALSE(a.device.next_event().has_value());
}

TEST_P(PathDraining, a_drained_queue_pair_still_serves_its_peer) {
  Link link = connect();
  Memory near(a, 8), far(b, 8);
  far.fill(6);
  must(link.a.modify(QpState::kSendQueueDrained));
  post(link.b, {.wr_id = 1, .op = SendOp::kWrite, .remote = near.remote()}, {far.sge()});
  EXPECT_TRUE(is_done(next(b.sends), 1, CompletionOp::kWrite, 8));
  EXPECT_TRUE(near.holds(6));
}

/// Where no other thread has a part of what was sent or has come.
class PathEnds : public PathSuite {
 protected:
  PathEnds() : PathSuite(DeviceShape{.helper = false}) {}
  /// Without asking for the completions of the sends.
  void send_three(Link& link, Memory& from, Memory& to) {
    for (std::uint64_t i = 0; i < 3; ++i) post_receive(link.b, i, {to.sge()});
    for (std::uint64_t i = 0; i < 3; ++i) {
      post(link.a, {.wr_id = i, .op = SendOp::kSend, .flags = SendFlags::kNone}, {from.sge()});
    }
  }
  void expect_three_received() {
    for (std::uint64_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(is_done(next(b.receives), i, CompletionOp::kReceive, 8));
    }
  }
  void end_both(Link& link) {
    must(link.b.modify(QpState::kError));
    must(link.a.modify(QpState::kError));
    EXPECT_TRUE(is_quiet(a.sends));
  }
};
INSTANTIATE_TEST_SUITE_P(Over, PathEnds, testing::ValuesIn(two_devices()), way_name);

TEST_P(PathEnds, what_was_received_is_not_flushed) {
  // Also when nobody asked for its completion, and the news of it had time: on a wire the
  // acknowledgement has long been there.
  Link link = connect();
  Memory from(a, 8), to(b, 8);
  send_three(link, from, to);
  expect_three_received();
  end_both(link);
}

TEST_P(PathEnds, what_had_come_by_then_is_received) {
  // A program that did not poll once between a message and its own end, as a device would have
  // taken it meanwhile.
  Link link = connect();
  Memory from(a, 8), to(b, 8);
  send_three(link, from, to);
  a.device.controller()->engine().settle();  // what waits for company goes out, too
  end_both(link);
  expect_three_received();
}

}  // namespace
}  // namespace weft::test

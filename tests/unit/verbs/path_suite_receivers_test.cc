// The receiving end over every path: buffers that are late, too small, shared, or not the owner's.
#include "support/path_suite.h"

namespace weft::test {
namespace {

/// The shortest pause of a receiver that is not ready: 10 us.
constexpr std::uint8_t kShortestRnr = 1;
constexpr std::uint8_t k10msRnr = 20;

QueuePairAttributes impatient(std::uint8_t rnr_retry) {
  QueuePairAttributes attributes;
  attributes.min_rnr_timer = kShortestRnr;
  attributes.rnr_retry = rnr_retry;
  return attributes;
}

class PathReceivers : public PathSuite {};
INSTANTIATE_TEST_SUITE_P(Over, PathReceivers, testing::ValuesIn(all_ways()), way_name);

TEST_P(PathReceivers, a_send_waits_for_a_late_receive_buffer) {
  // B2.1: receive-buffer underruns are survived.
  auto [qa, qb] = connect({}, impatient(7));
  Memory from(a, 10'000), to(b, 10'000);
  from.fill(1);
  post(qa, {.wr_id = 1, .op = SendOp::kSend}, {from.sge()});
  post(qa, {.wr_id = 2, .op = SendOp::kSendImmediate, .immediate = 3}, {from.sge(0, 8)});
  EXPECT_TRUE(is_quiet(a.sends));
  post_receive(qb, 50, {to.sge()});
  EXPECT_TRUE(is_done(next(b.receives), 50, CompletionOp::kReceive, 10'000));
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kSend, 10'000));
  EXPECT_TRUE(to.holds(1));
  EXPECT_TRUE(is_quiet(a.sends));
  post_receive(qb, 51, {to.sge()});
  EXPECT_TRUE(is_done(next(b.receives), 51, CompletionOp::kReceive, 8));
  EXPECT_TRUE(is_done(next(a.sends), 2, CompletionOp::kSend, 8));
}

TEST_P(PathReceivers, a_talkative_peer_does_not_keep_another_waiting) {
  const Node c(open());
  auto [qa, qb] = connect();
  auto [qc, qd] = connect(c, b);
  Memory from(a, 8), other(c, 8), to(b, 16);
  post_receive(qd, 2, {to.sge(8, 8)});
  bool heard = false;
  constexpr int kSignalEvery = 48;  // two times that fit into the send queue
  for (int i = 0; i < 5000 && !heard; ++i) {
    if (i == 1000) post(qc, {.op = SendOp::kSend}, {other.sge()});
    post_receive(qb, 1, {to.sge(0, 8)});
    // A thread that holds the rings and has no core lets nobody know what was done.
    const bool signals = i % kSignalEvery == kSignalEvery - 1;
    if (signals && i >= kSignalEvery) {
      ASSERT_TRUE(is_done(next(a.sends), 1, CompletionOp::kSend, 8));
    }
    const SendFlags flags = signals ? SendFlags::kSignaled : SendFlags::kNone;
    post(qa, {.wr_id = 1, .op = SendOp::kSend, .flags = flags}, {from.sge()});
    // As a program does that waits for nothing else.
    std::optional<Completion> got;
    for (int polls = 0; !got && polls < 10'000'000; ++polls) {
      got = b.receives.poll();
      a.device.controller()->poll();
      c.device.controller()->poll();
    }
    ASSERT_TRUE(got.has_value());
    heard = got->wr_id == 2;
  }
  EXPECT_TRUE(heard);
}

TEST_P(PathReceivers, a_write_with_immediate_waits_for_a_late_receive) {
  auto [qa, qb] = connect({}, impatient(7));
  Memory from(a, 10'000), to(b, 10'000);
  from.fill(2);
  post(qa, {.wr_id = 1, .op = SendOp::kWriteImmediate, .immediate = 9, .remote = to.remote()},
       {from.sge()});
  EXPECT_TRUE(is_quiet(a.sends));
  post_receive(qb, 50);
  EXPECT_TRUE(is_done(next(b.receives), 50, CompletionOp::kReceiveWriteImmediate, 10'000));
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kWrite, 10'000));
  EXPECT_TRUE(to.holds(2));
}

TEST_P(PathReceivers, a_write_with_immediate_that_has_to_wait_writes_once) {
  // A program that looks at its memory may have used the bytes before the receive was there.
  QueuePairAttributes patient = impatient(7);
  patient.min_rnr_timer = k10msRnr;
  auto [qa, qb] = connect({}, patient);
  Memory from(a, 64), to(b, 64), buffer(b, 64);
  from.fill(2);
  post_receive(qb, 50, {buffer.sge()});
  post(qa, {.wr_id = 1, .op = SendOp::kSend}, {from.sge(0, 8)});
  post(qa, {.wr_id = 2, .op = SendOp::kWriteImmediate, .immediate = 9, .remote = to.remote()},
       {from.sge()});
  EXPECT_TRUE(is_done(next(b.receives), 50, CompletionOp::kReceive, 8));
  const bool early = to.holds(2);
  std::fill(to.bytes.begin(), to.bytes.end(), std::byte{0});
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kSend, 8));
  post_receive(qb, 51);
  EXPECT_TRUE(is_done(next(b.receives), 51, CompletionOp::kReceiveWriteImmediate, 64));
  EXPECT_TRUE(is_done(next(a.sends), 2, CompletionOp::kWrite, 64));
  EXPECT_TRUE(early ? to.is_zero() : to.holds(2));
}

TEST_P(PathReceivers, retries_for_a_receiver_that_is_never_ready_run_out) {
  for (const SendOp op : {SendOp::kSend, SendOp::kWriteImmediate}) {
    auto [qa, qb] = connect({}, impatient(2));
    Memory from(a, 8), to(b, 8);
    post(qa, {.wr_id = 1, .op = op, .remote = to.remote()}, {from.sge()});
    post(qa, {.wr_id = 2, .op = op, .remote = to.remote()}, {from.sge()});
    EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kRnrRetryExceeded));
    EXPECT_TRUE(has_failed(next(a.sends), 2, CompletionStatus::kFlushed));
    EXPECT_EQ(qa.state(), QpState::kError);
    EXPECT_EQ(qb.state(), QpState::kReadyToSend) << "the receiver did nothing wrong";
  }
}

TEST_P(PathReceivers, a_buffer_too_small_fails_both_sides) {
  for (const std::uint32_t size : {65u, 10'000u}) {
    auto [qa, qb] = connect();
    Memory from(a, size), to(b, 128);
    from.fill(3);
    post_receive(qb, 50, {to.sge(0, 30), to.sge(30, 34)});
    post_receive(qb, 51, {to.sge()});
    post(qa, {.wr_id = 1, .op = SendOp::kSend}, {from.sge()});
    EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kRemoteInvalidRequest));
    EXPECT_TRUE(has_failed(next(b.receives), 50, CompletionStatus::kLocalLengthError));
    EXPECT_TRUE(has_failed(next(b.receives), 51, CompletionStatus::kFlushed));
    EXPECT_EQ(qa.state(), QpState::kError);
    EXPECT_EQ(qb.state(), QpState::kError);
    EXPECT_EQ(next_event(b).kind, AsyncEventKind::kQueuePairRequestError);
    EXPECT_TRUE(to.is_zero(64, 64)) << "not one byte past the list";
  }
}

TEST_P(PathReceivers, a_receive_buffer_under_a_bad_key_fails_both_sides) {
  auto [qa, qb] = connect();
  Memory from(a, 64), to(b, 64), read_only(b, 64, Access::kNone);
  from.fill(4);
  post_receive(qb, 50, {read_only.sge()});
  post(qa, {.wr_id = 1, .op = SendOp::kSend}, {from.sge()});
  EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kRemoteOperationError));
  EXPECT_TRUE(has_failed(next(b.receives), 50, CompletionStatus::kLocalProtectionError));
  EXPECT_EQ(qa.state(), QpState::kError);
  EXPECT_EQ(qb.state(), QpState::kError);
  EXPECT_TRUE(read_only.is_zero());
}

TEST_P(PathReceivers, a_gather_list_under_a_bad_key_fails_the_sender) {
  // B4.1: the controller serves a process only on memory that it may touch.
  const Node elsewhere(a.device);
  Memory from(a, 64), foreign(elsewhere, 64), to(b, 64);
  from.fill(5), foreign.fill(6);
  const LocalKey wrong(from.region.lkey().value ^ 0x4000);
  const std::uint64_t address = from.region.address();
  for (const Sge& bad :
       {Sge{address, 8, wrong}, foreign.sge(0, 8), Sge{address - 1, 8, from.sge().lkey},
        Sge{address + 57, 8, from.sge().lkey}}) {
    for (const SendOp op : {SendOp::kSend, SendOp::kWrite}) {
      auto [qa, qb] = connect();
      post_receive(qb, 50, {to.sge()});
      post(qa, {.wr_id = 1, .op = op, .remote = to.remote()}, {bad});
      EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kLocalProtectionError));
      EXPECT_TRUE(wait_until([&] { return qa.state() == QpState::kError; }));
      EXPECT_TRUE(is_quiet(b.receives)) << "nothing was sent";
    }
  }
  EXPECT_TRUE(to.is_zero());
}

TEST_P(PathReceivers, a_scatter_list_that_may_not_be_written_fails_the_reader) {
  Memory read_only(a, 64, Access::kNone), from(b, 64);
  from.fill(7);
  for (const SendOp op : {SendOp::kRead, SendOp::kFetchAdd}) {
    auto [qa, qb] = connect();
    post(qa, {.wr_id = 1, .op = op, .remote = from.remote()}, {read_only.sge(0, 8)});
    EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kLocalProtectionError));
    EXPECT_TRUE(wait_until([&] { return qa.state() == QpState::kError; }));
  }
  EXPECT_TRUE(read_only.is_zero());
}

TEST_P(PathReceivers, queue_pairs_take_buffers_from_a_shared_queue_in_turn) {
  const auto srq = must(b.pd.create_srq(16));
  QueuePairOptions shared;
  shared.shared_receive = &srq;
  Memory from(a, 8), to(b, 16 * 8);
  for (std::uint32_t i = 0; i < 6; ++i) {
    const Sge sge = to.sge(8 * i, 8);
    must(srq.post({50 + i, {&sge, 1}}));
  }
  std::vector<Link> links;
  for (int i = 0; i < 3; ++i) {
    links.push_back({a.create(), b.create(shared)});
    reconnect(links.back());
  }
  for (std::uint32_t i = 0; i < 6; ++i) {
    from.fill(i);
    Link& link = links[i % 3];
    post(link.a, {.wr_id = i, .op = SendOp::kSend}, {from.sge()});
    const Completion received = next(b.receives);
    EXPECT_TRUE(is_done(received, 50 + i, CompletionOp::kReceive, 8));
    EXPECT_EQ(received.qpn, link.b.number());
    EXPECT_TRUE(to.holds(i, 8 * i, 8));
    EXPECT_TRUE(next(a.sends).ok());
  }
  EXPECT_EQ(srq.posted(), 0u);
}

TEST_P(PathReceivers, a_shared_queue_that_runs_low_tells_once) {
  const auto srq = must(b.pd.create_srq(16));
  QueuePairOptions shared;
  shared.shared_receive = &srq;
  Link link{a.create(), b.create(shared)};
  reconnect(link);
  for (std::uint64_t i = 0; i < 5; ++i) must(srq.post({i, {}}));
  must(srq.arm_limit(3));
  const auto send_one = [&] {
    post(link.a, {.wr_id = 1, .op = SendOp::kSend});
    EXPECT_TRUE(next(b.receives).ok());
    EXPECT_TRUE(next(a.sends).ok());
  };
  send_one(), send_one();
  EXPECT_FALSE(b.device.next_event().has_value()) << "3 left are not fewer than 3";
  send_one();
  const AsyncEvent event = next_event(b);
  EXPECT_EQ(event.kind, AsyncEventKind::kSharedReceiveLimitReached);
  EXPECT_EQ(event.number, srq.number());
  send_one();
  EXPECT_FALSE(b.device.next_event().has_value());
}

TEST_P(PathReceivers, the_last_receive_of_a_failed_queue_pair_is_told) {
  const auto srq = must(b.pd.create_srq(16));
  QueuePairOptions shared;
  shared.shared_receive = &srq;
  Link link{a.create(), b.create(shared)};
  reconnect(link);
  must(srq.post({50, {}}));
  must(link.b.modify(QpState::kError));
  const AsyncEvent event = next_event(b);
  EXPECT_EQ(event.kind, AsyncEventKind::kLastReceiveReached);
  EXPECT_EQ(event.qpn, link.b.number());
  EXPECT_EQ(srq.posted(), 1u) << "the shared buffers belong to the others";
  EXPECT_TRUE(is_quiet(b.receives));
  EXPECT_FALSE(b.device.next_event().has_value());
}

}  // namespace
}  // namespace weft::test

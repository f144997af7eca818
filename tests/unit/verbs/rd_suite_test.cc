// B2.2: the reliable datagram over every way that carries it: each operation, many queue pairs over
// one context, and what a queue pair that takes nothing, or refuses, does to the others: nothing.
#include "support/rd_suite.h"

#include "path/contexts.h"

namespace weft::test {
namespace {

class Rd : public RdSuite {};
INSTANTIATE_TEST_SUITE_P(Over, Rd, testing::ValuesIn(datagram_ways()), way_name);

TEST_P(Rd, one_queue_pair_sends_to_any_other) {
  QueuePair from = open_rd(a), first = open_rd(b), second = open_rd(b);
  Memory near(a, 64), far(b, 128);
  near.fill(1);
  post_receive(first, 11, {far.sge(0, 64)});
  post_receive(second, 12, {far.sge(64, 64)});
  send(from, first, 1, near.sge());
  send(from, second, 2, near.sge());
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kSend, 64));
  EXPECT_TRUE(is_done(next(a.sends), 2, CompletionOp::kSend, 64));
  for (const std::uint64_t id : {11u, 12u}) {
    const Completion got = next(b.receives);
    EXPECT_TRUE(is_done(got, id, CompletionOp::kReceive, 64));
    EXPECT_EQ(got.source_qp, from.number());
  }
  EXPECT_TRUE(far.holds(1, 0, 64));
  EXPECT_TRUE(far.holds(1, 64, 64));
}

TEST_P(Rd, messages_of_many_frames_arrive_whole) {
  QueuePair from = open_rd(a), peer = open_rd(b);
  constexpr std::uint32_t kSize = 300'001;
  Memory near(a, kSize), far(b, kSize);
  near.fill(3);
  post_receive(peer, 5, {far.sge()});
  post(from, to(peer, {.wr_id = 1, .op = SendOp::kSendImmediate, .immediate = 77}), {near.sge()});
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kSend, kSize));
  const Completion got = next(b.receives);
  EXPECT_TRUE(is_done(got, 5, CompletionOp::kReceive, kSize));
  EXPECT_EQ(got.immediate, 77u);
  EXPECT_TRUE(far.holds(3));
}

TEST_P(Rd, memory_is_written_read_and_changed_by_atomics) {
  QueuePair from = open_rd(a), peer = open_rd(b);
  constexpr std::uint32_t kSize = 400'000;
  Memory near(a, kSize), far(b, kSize), back(a, kSize), word(a, 8);
  near.fill(9);
  post(from, to(peer, {.wr_id = 1, .op = SendOp::kWrite, .remote = far.remote()}), {near.sge()});
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kWrite, kSize));
  EXPECT_TRUE(far.holds(9));
  post(from, to(peer, {.wr_id = 2, .op = SendOp::kRead, .remote = far.remote()}), {back.sge()});
  EXPECT_TRUE(is_done(next(a.sends), 2, CompletionOp::kRead, kSize));
  EXPECT_TRUE(back.holds(9));
  far.word(0) = 40;
  post(from, to(peer, {.wr_id = 3, .op = SendOp::kFetchAdd, .remote = far.remote(), .operand = 2}),
       {word.sge()});
  EXPECT_TRUE(is_done(next(a.sends), 3, CompletionOp::kFetchAdd, 8));
  EXPECT_EQ(word.word(0), 40u);
  post(from,
       to(peer, {.wr_id = 4,
                 .op = SendOp::kCompareSwap,
                 .remote = far.remote(),
                 .compare = 42,
                 .operand = 7}),
       {word.sge()});
  EXPECT_TRUE(is_done(next(a.sends), 4, CompletionOp::kCompareSwap, 8));
  EXPECT_EQ(word.word(0), 42u);
  EXPECT_EQ(far.word(0), 7u);
  post_receive(peer, 6);
  post(from,
       to(peer,
          {.wr_id = 5, .op = SendOp::kWriteImmediate, .immediate = 8, .remote = far.remote(16)}),
       {near.sge(0, 100)});
  EXPECT_TRUE(is_done(next(a.sends), 5, CompletionOp::kWrite, 100));
  const Completion got = next(b.receives);
  EXPECT_TRUE(is_done(got, 6, CompletionOp::kReceiveWriteImmediate, 100));
  EXPECT_TRUE(far.holds(9, 16, 100));
}

TEST_P(Rd, both_ends_talk_at_once) {
  QueuePair here = open_rd(a), there = open_rd(b);
  Memory near(a, 4096), far(b, 4096);
  near.fill(1);
  far.fill(2);
  constexpr std::uint64_t kMessages = 50;
  Memory into_a(a, 4096), into_b(b, 4096);
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    post_receive(here, 100 + i, {into_a.sge()});
    post_receive(there, 100 + i, {into_b.sge()});
    send(here, there, i, near.sge());
    send(there, here, i, far.sge());
  }
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    EXPECT_TRUE(is_done(next(a.sends), i, CompletionOp::kSend, 4096)) << i;
    if (!GetParam().one_controller) {
      EXPECT_TRUE(is_done(next(b.sends), i, CompletionOp::kSend, 4096));
    }
    EXPECT_TRUE(next(a.receives).ok());
    EXPECT_TRUE(next(b.receives).ok());
  }
  EXPECT_TRUE(into_a.holds(2));
  EXPECT_TRUE(into_b.holds(1));
}

TEST_P(Rd, a_receiver_without_buffers_holds_up_nobody_else) {
  // B2.2
  QueuePair one = open_rd(a), other = open_rd(a), deaf = open_rd(b), peer = open_rd(b);
  Memory near(a, 5000), far(b, 10'000);
  near.fill(4);
  constexpr std::uint64_t kMessages = 20;
  for (std::uint64_t i = 0; i < kMessages; ++i) post_receive(peer, 200 + i, {far.sge(0, 5000)});
  send(one, deaf, 1, near.sge());
  for (std::uint64_t i = 0; i < kMessages; ++i) send(other, peer, 10 + i, near.sge());
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    EXPECT_TRUE(is_done(next(a.sends), 10 + i, CompletionOp::kSend, 5000));
    EXPECT_TRUE(is_done(next(b.receives), 200 + i, CompletionOp::kReceive, 5000));
  }
  EXPECT_TRUE(is_quiet(a.sends));
  post_receive(deaf, 300, {far.sge(5000, 5000)});
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kSend, 5000));
  EXPECT_TRUE(is_done(next(b.receives), 300, CompletionOp::kReceive, 5000));
  EXPECT_TRUE(far.holds(4, 5000, 5000));
}

TEST_P(Rd, a_receiver_that_stays_without_buffers_fails_the_one_request) {
  QueuePairAttributes attributes;
  attributes.rnr_retry = 2;
  attributes.min_rnr_timer = 1;
  QueuePair from = open_rd(a, attributes), deaf = open_rd(b, attributes), peer = open_rd(b);
  Memory near(a, 64), far(b, 64);
  post_receive(peer, 9, {far.sge()});
  send(from, deaf, 1, near.sge());
  send(from, peer, 2, near.sge());
  const Completion failed = next(a.sends);
  EXPECT_EQ(failed.wr_id, 1u);
  EXPECT_EQ(failed.status, CompletionStatus::kRnrRetryExceeded);
  EXPECT_TRUE(is_done(next(a.sends), 2, CompletionOp::kSend, 64));
  EXPECT_EQ(from.state(), QpState::kReadyToSend);
}

TEST_P(Rd, a_refused_request_fails_and_nothing_else_does) {
  QueuePair from = open_rd(a), peer = open_rd(b);
  Memory near(a, 64), far(b, 64), read_only(b, 64, Access::kLocalWrite | Access::kRemoteRead);
  near.fill(6);
  constexpr auto kAccess = CompletionStatus::kRemoteAccessError;
  post(from, to(peer, {.wr_id = 1, .op = SendOp::kWrite, .remote = read_only.remote()}),
       {near.sge()});
  post(from, to(peer, {.wr_id = 2, .op = SendOp::kWrite, .remote = far.remote()}), {near.sge()});
  post(from, to(peer, {.wr_id = 3, .op = SendOp::kRead, .remote = far.remote(1)}), {near.sge()});
  post(from, to(peer, {.wr_id = 4, .op = SendOp::kRead, .remote = far.remote()}), {near.sge()});
  const CompletionStatus wanted[] = {kAccess, kDone, kAccess, kDone};
  for (std::uint64_t i = 0; i < 4; ++i) {
    const Completion got = next(a.sends);
    EXPECT_EQ(got.wr_id, i + 1);
    EXPECT_EQ(got.status, wanted[i]) << i;
  }
  EXPECT_TRUE(far.holds(6));
  EXPECT_TRUE(read_only.is_zero());
  EXPECT_EQ(from.state(), QpState::kReadyToSend);
  EXPECT_EQ(peer.state(), QpState::kReadyToSend);
}

TEST_P(Rd, a_wrong_q_key_and_a_queue_pair_that_is_none_are_refused) {
  QueuePair from = open_rd(a), peer = open_rd(b);
  Memory near(a, 64), far(b, 64);
  post_receive(peer, 1, {far.sge()});
  post(from, to(peer, {.wr_id = 1}, QKey(0x4321)), {near.sge()});
  SendRequest nobody = to(peer, {.wr_id = 2});
  nobody.destination_qpn = Qpn(peer.number().value ^ 1);
  post(from, nobody, {near.sge()});
  send(from, peer, 3, near.sge());
  constexpr auto kNoSuch = CompletionStatus::kRemoteInvalidRdRequest;
  const CompletionStatus wanted[] = {kNoSuch, kNoSuch, kDone};
  for (std::uint64_t i = 0; i < 3; ++i) {
    const Completion got = next(a.sends);
    EXPECT_EQ(got.wr_id, i + 1);
    EXPECT_EQ(got.status, wanted[i]) << i;
  }
  EXPECT_TRUE(is_done(next(b.receives), 1, CompletionOp::kReceive, 64));
}

TEST_P(Rd, a_message_longer_than_its_buffer_fails_by_itself) {
  QueuePair from = open_rd(a), peer = open_rd(b);
  Memory near(a, 20'000), far(b, 40'000);
  near.fill(8);
  post_receive(peer, 1, {far.sge(0, 10'000)});
  post_receive(peer, 2, {far.sge(20'000, 20'000)});
  send(from, peer, 1, near.sge());
  send(from, peer, 2, near.sge());
  EXPECT_EQ(next(a.sends).status, CompletionStatus::kRemoteInvalidRequest);
  EXPECT_TRUE(is_done(next(a.sends), 2, CompletionOp::kSend, 20'000));
  EXPECT_EQ(next(b.receives).status, CompletionStatus::kLocalLengthError);
  EXPECT_TRUE(is_done(next(b.receives), 2, CompletionOp::kReceive, 20'000));
  EXPECT_TRUE(far.holds(8, 20'000, 20'000));
}

TEST_P(Rd, what_the_sender_itself_cannot_read_fails_by_itself) {
  QueuePair from = open_rd(a), peer = open_rd(b);
  Memory near(a, 64), far(b, 64);
  post_receive(peer, 1, {far.sge()});
  Sge wrong = near.sge();
  wrong.lkey = LocalKey(wrong.lkey.value ^ 0x77);
  post(from, to(peer, {.wr_id = 1}), {wrong});
  send(from, peer, 2, near.sge());
  EXPECT_EQ(next(a.sends).status, CompletionStatus::kLocalProtectionError);
  EXPECT_TRUE(is_done(next(a.sends), 2, CompletionOp::kSend, 64));
  EXPECT_TRUE(is_done(next(b.receives), 1, CompletionOp::kReceive, 64));
}

TEST_P(Rd, a_queue_pair_that_is_reset_takes_its_work_with_it_and_no_other) {
  QueuePair one = open_rd(a), other = open_rd(a), peer = open_rd(b);
  Memory near(a, 200'000), far(b, 200'000);
  near.fill(5);
  for (std::uint64_t i = 0; i < 10; ++i) {
    post(one, to(peer, {.wr_id = i, .op = SendOp::kWrite, .remote = far.remote()}), {near.sge()});
    post(other, to(peer, {.wr_id = 100 + i, .op = SendOp::kWrite, .remote = far.remote()}),
         {near.sge()});
  }
  must(one.modify(QpState::kError));
  std::uint64_t of_other = 0;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Completion got = next(a.sends);
    if (got.wr_id < 100) continue;
    EXPECT_TRUE(is_done(got, 100 + of_other, CompletionOp::kWrite, 200'000));
    ++of_other;
  }
  EXPECT_EQ(of_other, 10u);
  EXPECT_TRUE(far.holds(5));
}

TEST_P(Rd, local_work_and_fences_keep_their_place) {
  QueuePair from = open_rd(a), peer = open_rd(b), back = open_rd(b);
  Memory near(a, 64, kEverything), far(b, 64);
  far.fill(2);
  MemoryWindow window = must(a.pd.allocate_window(WindowType::kType1));
  post(from, to(peer, {.wr_id = 1, .op = SendOp::kRead, .remote = far.remote()}), {near.sge()});
  SendRequest bind = window.bind_request(near.region, 0, 64, Access::kRemoteRead);
  bind.wr_id = 2;
  must(from.post_send(bind));
  post(from, {.wr_id = 3, .op = SendOp::kDelay, .delay_ns = 1'000'000});
  post_receive(peer, 7, {far.sge()});
  post(from, to(peer, {.wr_id = 4, .flags = SendFlags::kFence | SendFlags::kSignaled}),
       {near.sge()});
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kRead, 64));
  EXPECT_TRUE(is_done(next(a.sends), 2, CompletionOp::kBind, 0));
  EXPECT_TRUE(is_done(next(a.sends), 3, CompletionOp::kDelay, 0));
  EXPECT_TRUE(is_done(next(a.sends), 4, CompletionOp::kSend, 64));
  EXPECT_TRUE(is_done(next(b.receives), 7, CompletionOp::kReceive, 64));
  Memory sink(b, 64);
  post(
      back,
      to(from, {.wr_id = 5, .op = SendOp::kRead, .remote = {near.region.address(), window.rkey()}}),
      {sink.sge()});
  EXPECT_TRUE(is_done(next(b.sends), 5, CompletionOp::kRead, 64));
  EXPECT_TRUE(sink.holds(2));
}

TEST_P(Rd, receive_buffers_may_come_from_a_shared_queue) {
  const auto shared = must(b.pd.create_srq(16));
  QueuePairOptions options;
  options.shared_receive = &shared;
  QueuePair from = open_rd(a), first = open_rd(b, {}, options), second = open_rd(b, {}, options);
  Memory near(a, 9000), far(b, 18000);
  near.fill(4);
  for (std::uint64_t i = 0; i < 2; ++i) {
    const Sge sge = far.sge(i * 9000, 9000);
    must(shared.post({.wr_id = i, .sges = {&sge, 1}}));
  }
  send(from, second, 1, near.sge());
  send(from, first, 2, near.sge());
  for (const Qpn receiver : {second.number(), first.number()}) {
    EXPECT_TRUE(next(a.sends).ok());
    const Completion got = next(b.receives);
    EXPECT_TRUE(got.ok());
    EXPECT_EQ(got.qpn, receiver);
    EXPECT_TRUE(far.holds(4, got.wr_id * 9000, 9000));
  }
}

TEST_P(Rd, a_drained_queue_pair_finishes_what_it_began_and_goes_on_later) {
  if (!framed()) GTEST_SKIP() << "directly, what waits for a buffer has not begun";
  QueuePair from = open_rd(a), peer = open_rd(b);
  Memory near(a, 5000), far(b, 5000);
  near.fill(1);
  send(from, peer, 1, near.sge());  // there is no buffer for it yet
  pump_a_while();
  must(from.modify(QpState::kSendQueueDrained));
  send(from, peer, 2, near.sge());
  post_receive(peer, 1, {far.sge()});
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kSend, 5000));
  EXPECT_EQ(next_event(a).kind, AsyncEventKind::kSendQueueDrained);
  post_receive(peer, 2, {far.sge()});
  EXPECT_TRUE(is_quiet(a.sends));
  must(from.modify(QpState::kReadyToSend));
  EXPECT_TRUE(is_done(next(a.sends), 2, CompletionOp::kSend, 5000));
}

TEST_P(Rd, sixteen_queue_pairs_share_one_context) {
  // B2.2
  if (!framed() || GetParam().one_controller) GTEST_SKIP() << "for frames between two controllers";
  std::vector<QueuePair> from, peers;
  Memory near(a, 64), far(b, 64);
  near.fill(1);
  for (int i = 0; i < 16; ++i) {
    from.push_back(open_rd(a));
    peers.push_back(open_rd(b));
    for (int k = 0; k < 16; ++k) post_receive(peers.back(), 0, {far.sge()});
  }
  for (QueuePair& one : from) {
    for (QueuePair& peer : peers) send(one, peer, 1, near.sge());
  }
  for (int i = 0; i < 256; ++i) {
    EXPECT_TRUE(next(a.sends).ok());
    EXPECT_TRUE(next(b.receives).ok());
  }
  EXPECT_EQ(a.device.controller()->contexts()->size().in_use, 1u);
  EXPECT_EQ(b.device.controller()->contexts()->size().in_use, 1u);
}

TEST_P(Rd, work_for_a_dead_endnode_fails_and_for_others_does_not) {
  if (!framed()) GTEST_SKIP() << "a process knows what is in it";
  QueuePairAttributes attributes;
  attributes.timeout = 8;
  attributes.retry_count = 1;
  QueuePair from = open_rd(a, attributes), other = open_rd(a, attributes), peer = open_rd(b);
  Memory near(a, 64), far(b, 1024);
  for (std::uint64_t i = 0; i < 8; ++i) post_receive(peer, i, {far.sge(0, 64)});
  SendRequest nobody = to(peer, {.wr_id = 1});
  nobody.destination.gid.raw[15] ^= 0x55;
  post(from, nobody, {near.sge()});
  post(other, nobody, {near.sge()});
  send(from, peer, 2, near.sge());
  send(other, peer, 2, near.sge());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(next(b.receives).ok());
  int failed = 0, done = 0;
  for (int i = 0; i < 4; ++i) {
    const Completion got = next(a.sends);
    EXPECT_EQ(got.status, got.wr_id == 1 ? CompletionStatus::kRetryExceeded : kDone);
    (got.wr_id == 1 ? failed : done) += 1;
  }
  EXPECT_EQ(failed, 2);
  EXPECT_EQ(done, 2);
}

}  // namespace
}  // namespace weft::test

// Every kind of work of the reliable connection, over every path: what arrives, and what both
// completions say.
#include <array>
#include <chrono>
#include <cstring>

#include "support/path_suite.h"

namespace weft::test {
namespace {

class PathOperations : public PathSuite {};
INSTANTIATE_TEST_SUITE_P(Over, PathOperations, testing::ValuesIn(all_ways()), way_name);

TEST_P(PathOperations, send_fills_the_receive_buffer) {
  // B1.5, B1.8: also between two queue pairs of one controller.
  auto [qa, qb] = connect();
  Memory from(a, 100), to(b, 120);
  from.fill(1);
  post_receive(qb, 50, {to.sge()});
  post(qa, {.wr_id = 1, .op = SendOp::kSend}, {from.sge()});
  const Completion received = next(b.receives);
  EXPECT_TRUE(is_done(received, 50, CompletionOp::kReceive, 100));
  EXPECT_EQ(received.qpn, qb.number());
  EXPECT_EQ(received.source_qp, qa.number());
  EXPECT_FALSE(received.has_immediate);
  EXPECT_FALSE(received.has_invalidate);
  const Completion sent = next(a.sends);
  EXPECT_TRUE(is_done(sent, 1, CompletionOp::kSend, 100));
  EXPECT_EQ(sent.qpn, qa.number());
  EXPECT_TRUE(to.holds(1, 0, 100));
  EXPECT_TRUE(to.is_zero(100, 20));
}

TEST_P(PathOperations, send_with_immediate_hands_over_the_number) {
  auto [qa, qb] = connect();
  Memory from(a, 64), to(b, 64);
  from.fill(2);
  post_receive(qb, 50, {to.sge()});
  post(qa, {.wr_id = 1, .op = SendOp::kSendImmediate, .immediate = 0xDEADBEEF}, {from.sge()});
  const Completion received = next(b.receives);
  EXPECT_TRUE(is_done(received, 50, CompletionOp::kReceive, 64));
  EXPECT_TRUE(received.has_immediate);
  EXPECT_EQ(received.immediate, 0xDEADBEEF);
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kSend, 64));
  EXPECT_TRUE(to.holds(2));
}

TEST_P(PathOperations, write_lands_without_the_owner_noticing) {
  // B1.5
  auto [qa, qb] = connect();
  Memory from(a, 300), to(b, 1000), spare(b, 64);
  from.fill(3);
  post_receive(qb, 50, {spare.sge()});
  post(qa, {.wr_id = 1, .op = SendOp::kWrite, .remote = to.remote(7)}, {from.sge()});
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kWrite, 300));
  EXPECT_TRUE(to.holds(3, 7, 300));
  EXPECT_TRUE(to.is_zero(0, 7));
  EXPECT_TRUE(to.is_zero(307, 693));
  EXPECT_TRUE(is_quiet(b.receives));
}

TEST_P(PathOperations, write_with_immediate_takes_a_receive_but_leaves_its_buffer) {
  auto [qa, qb] = connect();
  Memory from(a, 300), to(b, 300), spare(b, 64);
  from.fill(4);
  post_receive(qb, 50, {spare.sge()});
  post(qa, {.wr_id = 1, .op = SendOp::kWriteImmediate, .immediate = 77, .remote = to.remote()},
       {from.sge()});
  const Completion received = next(b.receives);
  EXPECT_TRUE(is_done(received, 50, CompletionOp::kReceiveWriteImmediate, 300));
  EXPECT_TRUE(received.has_immediate);
  EXPECT_EQ(received.immediate, 77u);
  EXPECT_EQ(received.source_qp, qa.number());
  EXPECT_TRUE(to.holds(4)) << "the data is there when the receiver hears of it";
  EXPECT_TRUE(spare.is_zero());
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kWrite, 300));
}

TEST_P(PathOperations, read_fetches_without_the_owner_noticing) {
  // B1.5
  auto [qa, qb] = connect();
  Memory to(a, 500), from(b, 500);
  from.fill(5);
  post(qa, {.wr_id = 1, .op = SendOp::kRead, .remote = from.remote(100)}, {to.sge(50, 200)});
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kRead, 200));
  EXPECT_TRUE(to.holds(5, 50, 200, 100));
  EXPECT_TRUE(to.is_zero(0, 50));
  EXPECT_TRUE(to.is_zero(250, 250));
  EXPECT_TRUE(from.holds(5));
}

TEST_P(PathOperations, compare_and_swap_exchanges_only_on_a_match) {
  // B1.5
  auto [qa, qb] = connect();
  Memory result(a, 16), target(b, 16);
  target.word(8) = 41;
  SendRequest swap{.op = SendOp::kCompareSwap, .remote = target.remote(8)};
  swap.wr_id = 1, swap.compare = 40, swap.operand = 99;
  post(qa, swap, {result.sge(0, 8)});
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kCompareSwap, 8));
  EXPECT_EQ(result.word(0), 41u);
  EXPECT_EQ(target.word(8), 41u);
  swap.wr_id = 2, swap.compare = 41;
  post(qa, swap, {result.sge(8, 8)});
  EXPECT_TRUE(is_done(next(a.sends), 2, CompletionOp::kCompareSwap, 8));
  EXPECT_EQ(result.word(8), 41u);
  EXPECT_EQ(target.word(8), 99u);
  EXPECT_EQ(target.word(0), 0u);
}

TEST_P(PathOperations, fetch_and_add_wraps_and_returns_what_was_there) {
  // B1.5
  auto [qa, qb] = connect();
  Memory result(a, 16), target(b, 8);
  target.word(0) = ~std::uint64_t{0};
  SendRequest add{.wr_id = 1, .op = SendOp::kFetchAdd, .remote = target.remote()};
  add.operand = 3;
  // The result may be scattered over several elements.
  post(qa, add, {result.sge(0, 3), result.sge(3, 5)});
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kFetchAdd, 8));
  EXPECT_EQ(result.word(0), ~std::uint64_t{0});
  EXPECT_EQ(target.word(0), 2u);
}

TEST_P(PathOperations, an_atomic_write_stores_one_word_and_brings_nothing_back) {
  auto [qa, qb] = connect();
  Memory target(b, 24);
  target.word(0) = 1, target.word(16) = 3;
  SendRequest write{.wr_id = 1, .op = SendOp::kAtomicWrite, .remote = target.remote(8)};
  write.operand = 0x0102'0304'0506'0708;
  post(qa, write);
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kAtomicWrite, 0));
  EXPECT_EQ(target.word(8), write.operand);
  EXPECT_EQ(target.word(0), 1u);
  EXPECT_EQ(target.word(16), 3u);
  EXPECT_TRUE(is_quiet(b.receives));
  // The last of several stands, and other work goes on around them.
  Memory result(a, 8);
  for (std::uint64_t i = 0; i < 40; ++i) {
    write.wr_id = i, write.operand = i;
    post(qa, write);
    if (i % 8 == 7)
      post(qa, {.wr_id = i, .op = SendOp::kRead, .remote = target.remote(8)}, {result.sge()});
    EXPECT_TRUE(is_done(next(a.sends), i, CompletionOp::kAtomicWrite, 0));
    if (i % 8 != 7) continue;
    EXPECT_TRUE(is_done(next(a.sends), i, CompletionOp::kRead, 8));
    EXPECT_EQ(result.word(0), i);
  }
}

TEST_P(PathOperations, messages_of_nothing_complete_on_both_sides) {
  auto [qa, qb] = connect();
  for (std::uint64_t i = 0; i < 3; ++i) post_receive(qb, 50 + i);
  // No byte is touched, so no key is asked for.
  const RemoteAddress nowhere{0x123, RemoteKey(0xFFFF'FFFF)};
  post(qa, {.wr_id = 1, .op = SendOp::kSend});
  post(qa, {.wr_id = 2, .op = SendOp::kSendImmediate, .immediate = 5});
  post(qa, {.wr_id = 3, .op = SendOp::kWrite, .remote = nowhere});
  post(qa, {.wr_id = 4, .op = SendOp::kWriteImmediate, .immediate = 6, .remote = nowhere});
  post(qa, {.wr_id = 5, .op = SendOp::kRead, .remote = nowhere});
  EXPECT_TRUE(is_done(next(b.receives), 50, CompletionOp::kReceive, 0));
  const Completion second = next(b.receives), third = next(b.receives);
  EXPECT_TRUE(is_done(second, 51, CompletionOp::kReceive, 0));
  EXPECT_EQ(second.immediate, 5u);
  EXPECT_TRUE(is_done(third, 52, CompletionOp::kReceiveWriteImmediate, 0));
  EXPECT_EQ(third.immediate, 6u);
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kSend, 0));
  EXPECT_TRUE(is_done(next(a.sends), 2, CompletionOp::kSend, 0));
  EXPECT_TRUE(is_done(next(a.sends), 3, CompletionOp::kWrite, 0));
  EXPECT_TRUE(is_done(next(a.sends), 4, CompletionOp::kWrite, 0));
  EXPECT_TRUE(is_done(next(a.sends), 5, CompletionOp::kRead, 0));
}

TEST_P(PathOperations, delay_holds_what_is_behind_it_for_at_least_its_time) {
  // B1.5: how much longer is up to the machine.
  auto [qa, qb] = connect();
  Memory from(a, 8), to(b, 8);
  from.fill(6);
  constexpr std::chrono::milliseconds kPause{30};
  const auto start = Steady::now();
  post(qa, {.wr_id = 1, .op = SendOp::kDelay, .delay_ns = 30'000'000});
  post(qa, {.wr_id = 2, .op = SendOp::kWrite, .remote = to.remote()}, {from.sge()});
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kDelay, 0));
  EXPECT_GE(Steady::now() - start, kPause);
  EXPECT_TRUE(is_done(next(a.sends), 2, CompletionOp::kWrite, 8));
  EXPECT_TRUE(to.holds(6, 0, 8));
}

TEST_P(PathOperations, delay_holds_no_other_queue) {
  // B1.5: a delay that no machine is slow enough to outlast.
  auto held = connect(), free_link = connect();
  Memory from(a, 8), to(b, 16);
  from.fill(6);
  post(held.a, {.wr_id = 1, .op = SendOp::kDelay, .delay_ns = 3'600'000'000'000});
  post(held.a, {.wr_id = 2, .op = SendOp::kWrite, .remote = to.remote(0)}, {from.sge()});
  post(free_link.a, {.wr_id = 3, .op = SendOp::kWrite, .remote = to.remote(8)}, {from.sge()});
  EXPECT_TRUE(is_done(next(a.sends), 3, CompletionOp::kWrite, 8));
  must(held.a.modify(QpState::kError));
  EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kFlushed));
  EXPECT_TRUE(has_failed(next(a.sends), 2, CompletionStatus::kFlushed));
  EXPECT_TRUE(to.is_zero(0, 8));
}

TEST_P(PathOperations, work_of_all_kinds_completes_in_order_of_posting) {
  // B1.4
  auto [qa, qb] = connect();
  Memory near(a, 4096), far(b, 4096), inbox(b, 4096);
  near.fill(7);
  for (std::uint64_t i = 0; i < 64; ++i) post_receive(qb, i, {inbox.sge(i * 64, 64)});
  constexpr std::array kOps{SendOp::kSend,  SendOp::kWrite,    SendOp::kRead,
                            SendOp::kDelay, SendOp::kFetchAdd, SendOp::kSendImmediate};
  for (std::uint64_t i = 0; i < 96; ++i) {
    const SendOp op = kOps[i % kOps.size()];
    SendRequest request{.wr_id = i, .op = op, .remote = far.remote(i / 6 * 64)};
    request.delay_ns = 1000;
    if (op == SendOp::kDelay) {
      post(qa, request);
    } else {
      post(qa, request, {near.sge(i * 40 / 8 * 8, 8)});
    }
  }
  for (std::uint64_t i = 0; i < 96; ++i) {
    const Completion completion = next(a.sends);
    ASSERT_TRUE(completion.ok()) << i << to_string(completion.status);
    ASSERT_EQ(completion.wr_id, i);
  }
  for (std::uint64_t i = 0; i < 32; ++i) {
    const Completion completion = next(b.receives);
    ASSERT_TRUE(is_done(completion, i, CompletionOp::kReceive, 8));
    EXPECT_EQ(completion.has_immediate, i % 2 == 1);
  }
}

TEST_P(PathOperations, both_directions_work_at_once) {
  auto [qa, qb] = connect();
  Memory at_a(a, 256 * 1024), at_b(b, 256 * 1024);
  at_a.fill(8);
  const auto half = static_cast<std::uint32_t>(at_a.bytes.size() / 2);
  for (std::uint32_t i = 0; i < half; ++i) at_b.bytes[half + i] = pattern(9, i);
  post(qa, {.wr_id = 1, .op = SendOp::kWrite, .remote = at_b.remote()}, {at_a.sge(0, half)});
  post(qb, {.wr_id = 2, .op = SendOp::kWrite, .remote = at_a.remote(half)}, {at_b.sge(half, half)});
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kWrite, half));
  EXPECT_TRUE(is_done(next(b.sends), 2, CompletionOp::kWrite, half));
  EXPECT_TRUE(at_b.holds(8, 0, half));
  EXPECT_TRUE(at_a.holds(9, half, half));
}

TEST_P(PathOperations, a_fenced_request_waits_for_the_reads_before_it) {
  auto [qa, qb] = connect();
  Memory buffer(a, 64), source(b, 64), inbox(b, 64);
  source.fill(10);
  post_receive(qb, 50, {inbox.sge()});
  const std::array read_into{buffer.sge()};
  const std::array<SendRequest, 2> both{
      SendRequest{.wr_id = 1, .op = SendOp::kRead, .sges = read_into, .remote = source.remote()},
      SendRequest{.wr_id = 2,
                  .op = SendOp::kSend,
                  .flags = SendFlags::kSignaled | SendFlags::kFence,
                  .sges = read_into}};
  std::size_t posted = 0;
  must(qa.post_send(both, &posted));
  EXPECT_TRUE(is_done(next(b.receives), 50, CompletionOp::kReceive, 64));
  EXPECT_TRUE(inbox.holds(10)) << "the send carried what the read had fetched";
}

TEST_P(PathOperations, a_fenced_short_send_carries_what_the_atomic_before_it_fetched) {
  auto [qa, qb] = connect();
  Memory word(a, 8), counter(b, 8), inbox(b, 8 * 16);
  for (std::uint64_t i = 0; i < 16; ++i) post_receive(qb, i, {inbox.sge(i * 8, 8)});
  for (std::uint64_t i = 0; i < 16; ++i) {
    SendRequest add{.wr_id = i, .op = SendOp::kFetchAdd, .remote = counter.remote()};
    add.operand = 1;
    post(qa, add, {word.sge()});
    post(qa,
         {.wr_id = 100 + i, .op = SendOp::kSend, .flags = SendFlags::kSignaled | SendFlags::kFence},
         {word.sge()});
    EXPECT_TRUE(is_done(next(b.receives), i, CompletionOp::kReceive, 8));
    std::uint64_t fetched = 0;
    std::memcpy(&fetched, inbox.bytes.data() + i * 8, 8);
    EXPECT_EQ(fetched, i);
    EXPECT_TRUE(is_done(next(a.sends), i, CompletionOp::kFetchAdd, 8));
    EXPECT_TRUE(is_done(next(a.sends), 100 + i, CompletionOp::kSend, 8));
  }
}

TEST_P(PathOperations, one_read_at_a_time_serves_them_all) {
  // B2.5: a responder that agreed to one read at a time never sees two.
  QueuePairAttributes attributes;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1;
  auto [qa, qb] = connect({}, attributes);
  Memory to(a, 64 * 1024), from(b, 64 * 1024);
  from.fill(11);
  for (std::uint32_t i = 0; i < 7; ++i) {
    post(qa, {.wr_id = i, .op = SendOp::kRead, .remote = from.remote(i * 9000)},
         {to.sge(i * 9000, 9000)});
  }
  SendRequest add{.wr_id = 7, .op = SendOp::kFetchAdd, .remote = from.remote(63'000)};
  add.operand = 1;
  post(qa, add, {to.sge(63'000, 8)});
  for (std::uint64_t i = 0; i < 8; ++i) {
    const Completion completion = next(a.sends);
    EXPECT_TRUE(completion.ok()) << to_string(completion.status);
    EXPECT_EQ(completion.wr_id, i);
  }
  EXPECT_TRUE(to.holds(11, 0, 63'008));
}

}  // namespace
}  // namespace weft::test

// Requests that are posted as one list, over every path: short sends may travel together then, and
// still complete, wait and fail one by one, in order.
#include <vector>

#include "support/path_suite.h"

namespace weft::test {
namespace {

constexpr std::uint32_t kSlot = 128;

/// Sends of one element each, posted by one call.
class List {
 public:
  void add(std::uint64_t wr_id, const Sge& sge, SendFlags flags = SendFlags::kSignaled) {
    sges_.push_back(sge);
    requests_.push_back({.wr_id = wr_id, .op = SendOp::kSend, .flags = flags});
  }
  void post(QueuePair& qp) {
    for (std::size_t i = 0; i < sges_.size(); ++i) requests_[i].sges = {&sges_[i], 1};
    std::size_t posted = 0;
    must(qp.post_send(requests_, &posted));
    EXPECT_EQ(posted, requests_.size());
  }

 private:
  std::vector<Sge> sges_;
  std::vector<SendRequest> requests_;
};

QueuePairOptions roomy(Service service = Service::kReliableConnection) {
  QueuePairOptions options;
  options.service = service;
  options.limits = {
      .max_send_wr = 512, .max_recv_wr = 512, .max_send_sge = 2, .max_inline_bytes = 64};
  return options;
}

class PathLists : public PathSuite {
 protected:
  /// Each buffer is a slot of `to`.
  static void post_slots(QueuePair& qp, const Memory& to, std::uint32_t first,
                         std::uint32_t count) {
    for (std::uint32_t i = first; i < first + count; ++i) {
      post_receive(qp, i, {to.sge(std::uint64_t{i} * kSlot, kSlot)});
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Over, PathLists, testing::ValuesIn(all_ways()), way_name);

TEST_P(PathLists, of_short_and_long_sends_arrive_whole_and_in_order) {
  constexpr std::uint32_t kMessages = 300;
  auto [qa, qb] = connect(roomy());
  Memory from(a, kMessages * kSlot), to(b, kMessages * kSlot);
  from.fill(1);
  post_slots(qb, to, 0, kMessages);
  const auto size_of = [](std::uint32_t i) { return i % 7 == 6 ? 65 + i % 64 : i % 65; };
  List list;
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    const bool inlined = i % 3 == 0 && size_of(i) <= 64;
    const SendFlags flags =
        inlined ? SendFlags::kSignaled | SendFlags::kInline : SendFlags::kSignaled;
    list.add(i, from.sge(std::uint64_t{i} * kSlot, size_of(i)), flags);
  }
  list.post(qa);
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(is_done(next(b.receives), i, CompletionOp::kReceive, size_of(i)));
    ASSERT_TRUE(to.holds(1, i * kSlot, size_of(i), i * kSlot));
    ASSERT_TRUE(to.is_zero(i * kSlot + size_of(i), kSlot - size_of(i)));
    ASSERT_TRUE(is_done(next(a.sends), i, CompletionOp::kSend, size_of(i)));
  }
}

TEST_P(PathLists, that_find_too_few_buffers_go_on_where_they_stopped) {
  // B2.1: receive-buffer underruns are survived.
  constexpr std::uint32_t kMessages = 20, kBuffers = 7;
  QueuePairAttributes attributes;
  attributes.min_rnr_timer = 1;
  attributes.rnr_retry = 7;
  auto [qa, qb] = connect(roomy(), attributes);
  Memory from(a, kMessages * kSlot), to(b, kMessages * kSlot);
  from.fill(2);
  post_slots(qb, to, 0, kBuffers);
  List list;
  for (std::uint32_t i = 0; i < kMessages; ++i) list.add(i, from.sge(i * kSlot, 8));
  list.post(qa);
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    SCOPED_TRACE(i);
    if (i == kBuffers) {
      EXPECT_TRUE(is_quiet(b.receives));
      EXPECT_TRUE(is_quiet(a.sends));
      post_slots(qb, to, kBuffers, kMessages - kBuffers);
    }
    ASSERT_TRUE(is_done(next(b.receives), i, CompletionOp::kReceive, 8));
    ASSERT_TRUE(is_done(next(a.sends), i, CompletionOp::kSend, 8));
    ASSERT_TRUE(to.holds(2, i * kSlot, 8, i * kSlot));
  }
  EXPECT_TRUE(is_quiet(b.receives));
}

TEST_P(PathLists, end_with_the_message_that_does_not_fit_its_buffer) {
  auto [qa, qb] = connect(roomy());
  Memory from(a, 8 * kSlot), to(b, 8 * kSlot);
  from.fill(3);
  post_slots(qb, to, 0, 2);
  post_receive(qb, 2, {to.sge(2 * kSlot, 7)});
  post_slots(qb, to, 3, 2);
  List list;
  for (std::uint32_t i = 0; i < 5; ++i) list.add(i, from.sge(i * kSlot, 8));
  list.post(qa);
  for (std::uint32_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(is_done(next(b.receives), i, CompletionOp::kReceive, 8));
    EXPECT_TRUE(is_done(next(a.sends), i, CompletionOp::kSend, 8));
  }
  EXPECT_TRUE(has_failed(next(b.receives), 2, CompletionStatus::kLocalLengthError));
  EXPECT_TRUE(has_failed(next(a.sends), 2, CompletionStatus::kRemoteInvalidRequest));
  for (std::uint32_t i = 3; i < 5; ++i) {
    EXPECT_TRUE(has_failed(next(b.receives), i, CompletionStatus::kFlushed));
    EXPECT_TRUE(has_failed(next(a.sends), i, CompletionStatus::kFlushed));
  }
  // What lies in the buffer that was too short is nobody's business.
  EXPECT_TRUE(to.is_zero(2 * kSlot + 7, 6 * kSlot - 7));
}

TEST_P(PathLists, end_with_the_message_that_cannot_be_read) {
  auto [qa, qb] = connect(roomy());
  Memory from(a, 8 * kSlot), to(b, 8 * kSlot);
  from.fill(4);
  post_slots(qb, to, 0, 5);
  List list;
  for (std::uint32_t i = 0; i < 5; ++i) {
    Sge sge = from.sge(i * kSlot, 8);
    if (i == 3) sge.lkey = LocalKey(sge.lkey.value ^ 0x4000);
    list.add(i, sge);
  }
  list.post(qa);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(is_done(next(b.receives), i, CompletionOp::kReceive, 8));
    EXPECT_TRUE(is_done(next(a.sends), i, CompletionOp::kSend, 8));
  }
  EXPECT_TRUE(has_failed(next(a.sends), 3, CompletionStatus::kLocalProtectionError));
  EXPECT_TRUE(has_failed(next(a.sends), 4, CompletionStatus::kFlushed));
  EXPECT_TRUE(to.is_zero(3 * kSlot, 5 * kSlot)) << "nothing was sent";
}

TEST_P(PathLists, of_unreliable_sends_lose_what_finds_no_buffer) {
  auto [qa, qb] = connect(roomy(Service::kUnreliableConnection));
  Memory from(a, 8 * kSlot), to(b, 8 * kSlot);
  from.fill(5);
  post_slots(qb, to, 0, 2);
  List list;
  for (std::uint32_t i = 0; i < 6; ++i) list.add(i, from.sge(i * kSlot, 8));
  list.post(qa);
  for (std::uint32_t i = 0; i < 6; ++i) {
    EXPECT_TRUE(is_done(next(a.sends), i, CompletionOp::kSend, 8));
  }
  for (std::uint32_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(is_done(next(b.receives), i, CompletionOp::kReceive, 8));
    EXPECT_TRUE(to.holds(5, i * kSlot, 8, i * kSlot));
  }
  EXPECT_TRUE(is_quiet(b.receives));
}

}  // namespace
}  // namespace weft::test

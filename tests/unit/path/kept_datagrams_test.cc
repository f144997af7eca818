#include "path/kept_datagrams.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/queue_end.h"

namespace weft::path {
namespace {

using test::QueueEnd;

constexpr std::uint32_t kDatagramBytes = 4096;

test::EndSetup datagram_end() {
  test::EndSetup setup;
  setup.service = Service::kUnreliableDatagram;
  setup.limits = {1024, 1, 2, 1, 64};
  setup.attributes.path_mtu = Mtu::k4096;
  return setup;
}

class KeptDatagramsTest : public testing::Test {
 protected:
  /// From the same memory each time, filled anew.
  void post(std::uint32_t seed, std::uint32_t bytes = kDatagramBytes) {
    test::fill_pattern(end.memory().first(bytes), seed);
    const Sge list[] = {end.sge(0, bytes)};
    ASSERT_TRUE(end.post_send({.wr_id = seed, .sges = list}));
  }
  static std::vector<std::byte> payload(const queue::SendWqe& wqe) {
    return {wqe.inline_bytes(), wqe.inline_bytes() + wqe.length};
  }
  std::vector<std::byte> expected(std::uint32_t seed, std::uint32_t bytes = kDatagramBytes) {
    std::vector<std::byte> out(bytes);
    test::fill_pattern(out, seed);
    return out;
  }

  QueueEnd end{datagram_end()};
  KeptDatagrams kept;
};

TEST_F(KeptDatagramsTest, have_the_payload_that_they_were_posted_with) {
  for (std::uint32_t i = 1; i <= 10; ++i) {
    post(i);
    kept.keep(end.qp);
  }
  for (std::uint32_t i = 1; i <= 10; ++i) {
    const queue::SendWqe& front = kept.front(end.qp);
    EXPECT_EQ(front.wr_id, i);
    ASSERT_TRUE(front.is_inline());
    EXPECT_EQ(payload(front), expected(i));
    queue::complete_front(end.qp, CompletionStatus::kSuccess, 0);
  }
}

TEST_F(KeptDatagramsTest, take_no_more_memory_than_their_bound_and_give_it_back) {
  constexpr std::uint32_t kPosted = 600;
  static_assert(kPosted * kDatagramBytes > KeptDatagrams::kMostBytes);
  for (std::uint32_t i = 1; i <= kPosted; ++i) {
    post(i);
    kept.keep(end.qp);
  }
  EXPECT_LE(kept.bytes(), KeptDatagrams::kMostBytes);
  EXPECT_GE(kept.bytes(), KeptDatagrams::kMostBytes - 2 * kDatagramBytes);
  for (std::uint32_t i = 1; i <= kPosted; ++i) {
    const queue::SendWqe& front = kept.front(end.qp);
    EXPECT_EQ(front.wr_id, i);
    if (front.is_inline()) {
      EXPECT_EQ(payload(front), expected(i));
    }
    queue::complete_front(end.qp, CompletionStatus::kSuccess, 0);
  }
  post(kPosted + 1);
  kept.keep(end.qp);
  EXPECT_LT(kept.bytes(), 2 * kDatagramBytes);
  EXPECT_EQ(payload(kept.front(end.qp)), expected(kPosted + 1));
}

TEST_F(KeptDatagramsTest, leave_alone_what_cannot_be_read_and_what_is_copied_already) {
  const Sge unreadable[] = {{end.address(), 100, LocalKey(0xBAD)}};
  ASSERT_TRUE(end.post_send({.wr_id = 1, .sges = unreadable}));
  const Sge inlined[] = {{end.address(), 10, {}}};
  ASSERT_TRUE(end.post_send({.wr_id = 2, .flags = SendFlags::kInline, .sges = inlined}));
  post(3, 100);
  kept.keep(end.qp);
  EXPECT_EQ(&kept.front(end.qp), &end.qp.sq.front());
  queue::complete_front(end.qp, CompletionStatus::kSuccess, 0);
  EXPECT_EQ(&kept.front(end.qp), &end.qp.sq.front());
  queue::complete_front(end.qp, CompletionStatus::kSuccess, 0);
  EXPECT_EQ(payload(kept.front(end.qp)), expected(3, 100));
}

}  // namespace
}  // namespace weft::path

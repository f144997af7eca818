#include "verbs/queue_pair_pool.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft::verbs {
namespace {

TEST(QueuePairPool, gives_so_many_and_one_more_when_one_comes_back) {
  QueuePairPool pool(base::system_random(), 2);
  queue::QueuePair* const first = pool.acquire("weft0").value();
  ASSERT_TRUE(pool.acquire("weft0"));
  const auto refused = pool.acquire("weft0");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kOutOfMemory);
  EXPECT_EQ(refused.error().message, "weft0: all 2 queue pairs are in use");
  EXPECT_EQ(pool.live(), 2u);
  pool.release(*first);
  EXPECT_EQ(pool.live(), 1u);
  EXPECT_TRUE(pool.acquire("weft0"));
}

TEST(QueuePairPool, keeps_nothing_of_one_that_no_number_was_left_for) {
  QueuePairPool pool(base::system_random(), 2);
  pool.numbers().set_claim(
      []() -> Result<std::uint32_t> { return fail(Errc::kOutOfMemory, "no"); });
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(pool.acquire("weft0"));
  EXPECT_EQ(pool.live(), 0u);
}

TEST(QueuePairPool, finds_those_that_have_left_reset) {
  QueuePairPool pool(base::system_random(), 8);
  queue::QueuePair* const qp = pool.acquire("weft0").value();
  EXPECT_TRUE(pool.owns(qp->qpn));
  EXPECT_EQ(pool.find(qp->qpn), nullptr);
  qp->state.store(QpState::kInit);
  EXPECT_EQ(pool.find(qp->qpn), qp);
  memory::Flight::clear(memory::Hold::kPeer);
  EXPECT_EQ(pool.find(Qpn(qp->qpn.value ^ 1)), nullptr);
}

TEST(QueuePairPool, visits_those_that_can_receive) {
  QueuePairPool pool(base::system_random(), 8);
  pool.acquire("weft0").value()->state.store(QpState::kInit);
  queue::QueuePair* const ready = pool.acquire("weft0").value();
  ready->state.store(QpState::kReadyToReceive);
  std::vector<queue::QueuePair*> visited;
  pool.for_each([&](queue::QueuePair& qp) { visited.push_back(&qp); });
  EXPECT_EQ(visited, std::vector{ready});
}

}  // namespace
}  // namespace weft::verbs

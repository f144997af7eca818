#include "queue/receive_queue.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <vector>

#include "base/random.h"

namespace weft::queue {
namespace {

TEST(ReceiveQueue, gives_the_buffers_out_in_the_order_in_which_they_came) {
  ReceiveQueue queue;
  queue.configure(4, 2);
  const Sge list[] = {{1, 2, LocalKey(3)}, {4, 5, LocalKey(6)}};
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(queue.post({i, {list, i == 1 ? 2u : 1u}}));
  for (std::uint64_t i = 0; i < 3; ++i) {
    ReceiveWqe* wqe = queue.take();
    ASSERT_NE(wqe, nullptr);
    EXPECT_EQ(wqe->wr_id, i);
    EXPECT_EQ(wqe->sges().size(), i == 1 ? 2u : 1u);
    EXPECT_EQ(wqe->sges()[0].length, 2u);
    queue.release(wqe);
  }
  EXPECT_EQ(queue.take(), nullptr);
}

TEST(ReceiveQueue, counts_a_buffer_that_is_taken_against_the_capacity_until_its_release) {
  ReceiveQueue queue;
  queue.configure(2, 1);
  ASSERT_TRUE(queue.post({1, {}}));
  ASSERT_TRUE(queue.post({2, {}}));
  ReceiveWqe* taken = queue.take();
  const auto refused = queue.post({3, {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kQueueFull);
  EXPECT_NE(refused.error().message.find("all 2 elements"), std::string::npos);
  queue.release(taken);
  EXPECT_TRUE(queue.post({3, {}}));
}

TEST(ReceiveQueue, refuses_a_list_that_is_too_long_and_says_how_long_it_may_be) {
  ReceiveQueue queue;
  queue.configure(2, 1);
  const Sge list[2] = {};
  const auto refused = queue.post({1, list});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kInvalidArgument);
  EXPECT_EQ(refused.error().message, "sges: 2 elements, but the queue was created with at most 1");
}

TEST(ReceiveQueue, takes_no_memory_before_the_first_post) {
  ReceiveQueue queue;
  queue.configure(1000, 4);
  EXPECT_EQ(queue.ring_bytes(), 0u);
  EXPECT_EQ(queue.take(), nullptr);
  ASSERT_TRUE(queue.post({1, {}}));
  EXPECT_GT(queue.ring_bytes(), 0u);
  queue.clear();
  EXPECT_EQ(queue.ring_bytes(), 0u);
  EXPECT_EQ(queue.posted(), 0u);
}

TEST(ReceiveQueue, takes_as_much_memory_as_the_most_posted_buffers_need) {
  ReceiveQueue queue;
  queue.configure(1000, 1);
  ASSERT_TRUE(queue.post({1, {}}));
  ASSERT_TRUE(queue.post({2, {}}));
  EXPECT_LE(queue.ring_bytes(), 2 * (sizeof(ReceiveWqe) + sizeof(Sge) + 16));
  ReceiveWqe* taken = queue.take();
  ASSERT_NE(taken, nullptr);
  for (std::uint64_t i = 3; i <= 300; ++i) ASSERT_TRUE(queue.post({i, {}}));
  EXPECT_EQ(taken->wr_id, 1u) << "with its taker it stays as it was";
  queue.release(taken);
  for (std::uint64_t i = 2; i <= 300; ++i) {
    ReceiveWqe* wqe = queue.take();
    ASSERT_NE(wqe, nullptr);
    EXPECT_EQ(wqe->wr_id, i);
    queue.release(wqe);
  }
  EXPECT_EQ(queue.take(), nullptr);
}

TEST(ReceiveQueue, is_full_when_it_has_no_capacity) {
  ReceiveQueue queue;
  queue.configure(0, 1);
  const auto refused = queue.post({1, {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kQueueFull);
}

TEST(ReceiveQueue, tells_once_that_it_fell_below_the_armed_limit) {
  ReceiveQueue queue;
  queue.configure(8, 1);
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(queue.post({i, {}}));
  EXPECT_FALSE(queue.limit_reached()) << "not armed";
  queue.arm_limit(3);
  EXPECT_FALSE(queue.limit_reached());
  queue.release(queue.take());
  EXPECT_FALSE(queue.limit_reached()) << "three are not fewer than three";
  queue.release(queue.take());
  EXPECT_TRUE(queue.limit_reached());
  EXPECT_FALSE(queue.limit_reached()) << "it has to be armed again";
}

TEST(ReceiveQueue, takes_buffers_back_in_any_order) {
  // What a queue that several queue pairs share sees, against a model of it.
  base::SeededRandom random(5);
  ReceiveQueue queue;
  queue.configure(13, 1);
  std::deque<std::uint64_t> posted;
  std::vector<std::pair<ReceiveWqe*, std::uint64_t>> out;
  std::uint64_t next = 0;
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t draw = random.below(3);
    if (draw == 0) {
      const bool room = posted.size() + out.size() < 13;
      ASSERT_EQ(queue.post({next, {}}).has_value(), room);
      if (room) posted.push_back(next++);
    } else if (draw == 1) {
      ReceiveWqe* wqe = queue.take();
      ASSERT_EQ(wqe != nullptr, !posted.empty());
      if (wqe == nullptr) continue;
      ASSERT_EQ(wqe->wr_id, posted.front());
      out.emplace_back(wqe, posted.front());
      posted.pop_front();
    } else if (!out.empty()) {
      const std::size_t i = random.below(out.size());
      ASSERT_EQ(out[i].first->wr_id, out[i].second) << "another buffer was put over it";
      queue.release(out[i].first);
      out.erase(out.begin() + static_cast<std::ptrdiff_t>(i));
    }
    ASSERT_EQ(queue.posted(), posted.size());
  }
}

}  // namespace
}  // namespace weft::queue

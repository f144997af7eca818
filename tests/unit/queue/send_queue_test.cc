#include "queue/send_queue.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace weft::queue {
namespace {

void fill(SendQueue& queue, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t i = from; i < to; ++i) {
    SendWqe* wqe = queue.reserve();
    ASSERT_NE(wqe, nullptr);
    wqe->wr_id = i;
    queue.commit();
  }
}

TEST(SendQueue, takes_no_memory_before_the_first_post_and_none_after_release) {
  SendQueue queue;
  queue.configure({100, 0, 2, 0, 0});
  EXPECT_EQ(queue.ring_bytes(), 0u);
  fill(queue, 0, 1);
  EXPECT_GT(queue.ring_bytes(), 0u);
  queue.release();
  EXPECT_EQ(queue.ring_bytes(), 0u);
  EXPECT_TRUE(queue.empty());
}

TEST(SendQueue, takes_as_much_memory_as_the_most_outstanding_elements_need) {
  SendQueue queue;
  queue.configure({1000, 0, 2, 0, 0});
  const std::size_t element = sizeof(SendWqe) + 2 * sizeof(Sge) + 16;
  for (std::uint64_t i = 0; i < 500; ++i) {
    fill(queue, i, i + 1);
    EXPECT_EQ(queue.front().wr_id, i);
    queue.pop();
  }
  EXPECT_LE(queue.ring_bytes(), 2 * element) << "never more than one was outstanding";
  fill(queue, 500, 800);  // the ring grows while its elements lie across its end
  EXPECT_GE(queue.ring_bytes(), 300 * sizeof(SendWqe));
  EXPECT_LE(queue.ring_bytes(), 512 * element);
  for (std::uint64_t i = 500; i < 800; ++i) {
    ASSERT_EQ(queue.front().wr_id, i);
    queue.pop();
  }
}

TEST(SendQueue, holds_exactly_its_capacity_also_when_that_is_no_power_of_two) {
  for (const std::uint32_t capacity : {1u, 2u, 3u, 100u, 128u}) {
    SendQueue queue;
    queue.configure({capacity, 0, 1, 0, 0});
    fill(queue, 0, capacity);
    EXPECT_EQ(queue.reserve(), nullptr);
    queue.pop();
    EXPECT_NE(queue.reserve(), nullptr);
  }
}

TEST(SendQueue, has_no_room_when_it_has_no_capacity) {
  SendQueue queue;
  queue.configure({0, 0, 1, 0, 0});
  EXPECT_EQ(queue.reserve(), nullptr);
}

TEST(SendQueue, keeps_the_order_over_many_turns_of_the_ring) {
  SendQueue queue;
  queue.configure({5, 0, 1, 0, 0});
  std::uint64_t posted = 0;
  std::uint64_t taken = 0;
  while (taken < 1000) {
    const std::uint64_t n = 1 + posted % 5;
    fill(queue, posted, posted + n);
    posted += n;
    for (std::uint32_t i = queue.head(); i != queue.tail(); ++i) {
      EXPECT_EQ(queue.at(i).wr_id, taken + (i - queue.head()));
    }
    while (!queue.empty()) {
      EXPECT_EQ(queue.front().wr_id, taken++);
      queue.pop();
    }
  }
}

TEST(SendQueue, gives_each_element_room_for_its_list_and_its_inline_bytes) {
  SendQueue queue;
  queue.configure({3, 0, 2, 0, 200});
  ASSERT_TRUE(queue.widen());
  for (int i = 0; i < 3; ++i) {
    SendWqe* wqe = queue.reserve();
    wqe->wr_id = 7;
    std::fill_n(wqe->inline_bytes(), 200, std::byte{0xAA});
    queue.commit();
  }
  for (std::uint32_t i = queue.head(); i != queue.tail(); ++i) {
    EXPECT_EQ(queue.at(i).wr_id, 7u) << "a neighbour's inline data runs into it";
  }
}

TEST(SendQueue, has_room_for_long_inline_data_from_the_first_of_it_on) {
  SendQueue queue;
  queue.configure({64, 0, 1, 0, 512});
  const std::uint32_t before = queue.inline_room();
  EXPECT_LT(before, 512u);
  fill(queue, 0, 20);
  EXPECT_LE(queue.ring_bytes(), 32 * (sizeof(SendWqe) + before + 16)) << "nobody has sent any";
  for (std::uint32_t i = queue.head(); i != queue.tail(); ++i) {
    std::fill_n(queue.at(i).inline_bytes(), before, static_cast<std::byte>(i));
  }
  ASSERT_TRUE(queue.widen());
  EXPECT_EQ(queue.inline_room(), 512u);
  SendWqe* wqe = queue.reserve();
  ASSERT_NE(wqe, nullptr);
  wqe->wr_id = 20;
  std::fill_n(wqe->inline_bytes(), 512, std::byte{0xAA});
  queue.commit();
  fill(queue, 21, 64);
  EXPECT_EQ(queue.reserve(), nullptr);
  for (std::uint32_t i = queue.head(); i != queue.tail(); ++i) {
    EXPECT_EQ(queue.at(i).wr_id, i);
    const std::uint32_t n = i < 20 ? before : i == 20 ? 512 : 0;
    const auto value = i < 20 ? static_cast<std::byte>(i) : std::byte{0xAA};
    const std::byte* bytes = queue.at(i).inline_bytes();
    EXPECT_TRUE(std::all_of(bytes, bytes + n, [&](std::byte b) { return b == value; })) << i;
  }
}

}  // namespace
}  // namespace weft::queue

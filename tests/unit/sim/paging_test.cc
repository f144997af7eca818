#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "unit/sim/memory_fixture.h"

namespace weft::sim {
namespace {

using test::bytes;
using test::queue_pair;
using test::read;

class SimPaging : public test::SimMemory {};

TEST_P(SimPaging, a_swapped_out_page_comes_back_and_the_operation_completes) {
  // B4.4: memory need not be pinned.
  const std::uint64_t ea = *process.allocate(10);
  process.open_queue_pair(queue_pair(1));
  const auto data = bytes(10 * kPageBytes, 2);
  ASSERT_EQ(process.write(ea, data), memory::Fault::kNone);
  ASSERT_EQ(node.evict(100), 10U);
  EXPECT_FALSE(node.resident(*process.virtual_page(ea)));
  std::vector<std::byte> seen(data.size());
  ASSERT_EQ(memory::load(seen, {&process, ea}), memory::Fault::kNone);
  EXPECT_EQ(seen, data);
  EXPECT_EQ(node.counters().swap_ins, 10U);
  EXPECT_EQ(node.counters().swap_outs, 10U);
  ASSERT_EQ(node.evict(100), 10U);
  ASSERT_EQ(memory::store({&process, ea + 5}, bytes(3 * kPageBytes, 7)), memory::Fault::kNone);
  EXPECT_EQ(read(process, ea + 5, 3 * kPageBytes), bytes(3 * kPageBytes, 7));
}

TEST_P(SimPaging, held_and_pinned_pages_stay) {
  const std::uint64_t ea = *process.allocate(4);
  process.open_queue_pair(queue_pair(1));
  ASSERT_EQ(process.write(ea, bytes(4 * kPageBytes, 2)), memory::Fault::kNone);
  ASSERT_EQ(process.pin(ea + kPageBytes, 10), memory::Fault::kNone);
  const auto view = process.map(ea, 8, memory::Intent::kWrite);
  ASSERT_TRUE(view);
  EXPECT_EQ(node.evict(100), 2U);
  EXPECT_TRUE(node.resident(*process.virtual_page(ea)));
  EXPECT_TRUE(node.resident(*process.virtual_page(ea + kPageBytes)));
  EXPECT_FALSE(node.migrate(*process.virtual_page(ea)));
  process.unmap(*view);
  process.unpin(ea + kPageBytes, 10);
  EXPECT_EQ(node.evict(100), 2U);
}

TEST_P(SimPaging, a_pin_that_fails_pins_nothing) {
  const std::uint64_t ea = *process.allocate(2);
  EXPECT_EQ(process.pin(ea, 3 * kPageBytes), memory::Fault::kUnmapped);
  EXPECT_EQ(node.evict(100), 2U);
}

TEST_P(SimPaging, a_touched_page_gets_a_second_chance) {
  const std::uint64_t ea = *process.allocate(4);
  ASSERT_EQ(process.write(ea, bytes(4 * kPageBytes, 2)), memory::Fault::kNone);
  ASSERT_EQ(node.evict(1), 1U);  // the hand has passed all and taken the first
  const auto kept = read(process, ea + kPageBytes, 1);
  ASSERT_EQ(node.evict(1), 1U);
  EXPECT_TRUE(node.resident(*process.virtual_page(ea + kPageBytes)));
  EXPECT_FALSE(node.resident(*process.virtual_page(ea + 2 * kPageBytes)));
}

TEST_P(SimPaging, when_every_frame_is_held_a_fault_says_so_instead_of_waiting) {
  NodeMemory tiny(test::settings(GetParam(), 2));
  ProcessMemory user(tiny);
  const std::uint64_t ea = *user.allocate(3);
  const auto first = user.map(ea, 1, memory::Intent::kWrite);
  const auto second = user.map(ea + kPageBytes, 1, memory::Intent::kWrite);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(user.map(ea + 2 * kPageBytes, 1, memory::Intent::kRead).error(),
            memory::Fault::kUnmapped);
  user.unmap(*first);
  EXPECT_TRUE(user.map(ea + 2 * kPageBytes, 1, memory::Intent::kRead));
}

TEST_P(SimPaging, a_full_swap_space_keeps_pages_instead_of_losing_them) {
  auto limits = test::settings(GetParam(), 2);
  limits.swap_pages = 1;
  NodeMemory tiny(limits);
  ProcessMemory user(tiny);
  const std::uint64_t ea = *user.allocate(4);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(user.write(ea + static_cast<unsigned>(i) * kPageBytes, bytes(8, i)),
              memory::Fault::kNone);
  }
  EXPECT_EQ(user.write(ea + 3 * kPageBytes, bytes(8, 3)), memory::Fault::kUnmapped);
  for (int i = 1; i < 3; ++i) {
    EXPECT_EQ(read(user, ea + static_cast<unsigned>(i) * kPageBytes, 8), bytes(8, i));
  }
}

TEST_P(SimPaging, unmapped_pages_come_back_empty) {
  const std::uint64_t ea = *process.allocate(1);
  ASSERT_EQ(process.write(ea, bytes(64, 3)), memory::Fault::kNone);
  ASSERT_EQ(node.evict(1), 1U);
  const VirtualPage page = *process.virtual_page(ea);
  node.unmap_page(page);
  node.map_page(page, PageRights::kReadWrite);
  EXPECT_EQ(read(process, ea, 64), std::vector<std::byte>(64));
}

TEST_P(SimPaging, a_destroyed_segment_is_gone_and_its_frames_are_free) {
  const SegmentNumber segment = node.create_segment(60, PageRights::kReadWrite);
  const std::uint64_t ea = *process.set_segment(5, segment);
  process.open_queue_pair(queue_pair(1));
  ASSERT_EQ(memory::store({&process, ea}, bytes(60 * kPageBytes, 3)), memory::Fault::kNone);
  node.destroy_segment(segment);
  std::array<std::byte, 8> word{};
  EXPECT_EQ(memory::load(word, {&process, ea}), memory::Fault::kUnmapped);
  const std::uint64_t next = *process.allocate(64);
  ASSERT_EQ(memory::store({&process, next}, bytes(64 * kPageBytes, 4)), memory::Fault::kNone);
  EXPECT_EQ(node.counters().swap_outs, 0U);
}

// Random traffic on three times as much memory as there are frames, against a plain shadow.
TEST_P(SimPaging, never_loses_a_byte_under_memory_pressure) {
  // B4.4
  constexpr std::size_t kSize = 48 * kPageBytes;
  NodeMemory small(test::settings(GetParam(), 16));
  ProcessMemory user(small);
  user.open_queue_pair(queue_pair(1));
  const std::uint64_t ea = *user.allocate(48);
  std::vector<std::byte> shadow(kSize), seen(kSize);
  base::SeededRandom random(11);
  for (int i = 0; i < 4000; ++i) {
    const std::size_t at = random.below(kSize), to = random.below(kSize);
    const std::size_t n = 1 + random.below(std::min<std::size_t>(9000, kSize - std::max(at, to)));
    switch (random.below(5)) {
      case 0:
        ASSERT_EQ(memory::store({&user, ea + at}, bytes(n, i)), memory::Fault::kNone);
        std::ranges::copy(bytes(n, i), shadow.begin() + static_cast<long>(at));
        break;
      case 1:
        ASSERT_EQ(memory::load(std::span(seen).first(n), {&user, ea + at}), memory::Fault::kNone);
        ASSERT_TRUE(std::equal(seen.begin(), seen.begin() + static_cast<long>(n),
                               shadow.begin() + static_cast<long>(at)));
        break;
      case 2:
        if (at + n > to && to + n > at) break;  // overlapping: not defined
        ASSERT_EQ(memory::copy({&user, ea + to}, {&user, ea + at}, n), memory::Fault::kNone);
        std::copy_n(shadow.begin() + static_cast<long>(at), n,
                    shadow.begin() + static_cast<long>(to));
        break;
      case 3:
        small.evict(static_cast<std::uint32_t>(random.below(8)));
        break;
      default:
        small.migrate(*user.virtual_page(ea + at));
        break;
    }
  }
  EXPECT_EQ(read(user, ea, kSize), shadow);
  EXPECT_GT(small.counters().swap_ins, 100U);
}

INSTANTIATE_TEST_SUITE_P(Tables, SimPaging, testing::ValuesIn(test::kAllTables));

}  // namespace
}  // namespace weft::sim

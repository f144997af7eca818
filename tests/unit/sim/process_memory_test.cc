#include <gtest/gtest.h>

#include "unit/sim/memory_fixture.h"

namespace weft::sim {
namespace {

using test::bytes;
using test::queue_pair;
using test::read;

class ProcessMemoryTest : public test::SimMemory {};

TEST_P(ProcessMemoryTest, an_address_is_segment_page_and_offset) {
  // B4.1: effective to virtual by the segment table, virtual to physical by the page table.
  const SegmentNumber segment = node.create_segment(4, PageRights::kReadWrite);
  const std::uint64_t base = *process.set_segment(0x123, segment);
  EXPECT_EQ(base, std::uint64_t{0x123} << 40);
  process.open_queue_pair(queue_pair(1));
  const std::uint64_t ea = base + 2 * kPageBytes + 5;
  EXPECT_EQ(process.virtual_page(ea), page_of(segment, 2));
  const auto view = process.map(ea, 3 * kPageBytes, memory::Intent::kWrite);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->size, kPageBytes - 5);  // a prefix: the page's rest
  const auto frame = node.resolve(page_of(segment, 2), memory::Intent::kRead);
  EXPECT_EQ(view->data, node.bytes(*frame).data() + 5);
  process.unmap(*view);
}

TEST_P(ProcessMemoryTest, the_controller_and_the_process_see_the_same_bytes) {
  const std::uint64_t ea = *process.allocate(8);
  process.open_queue_pair(queue_pair(1));
  const auto data = bytes(5 * kPageBytes, 1);
  ASSERT_EQ(memory::store({&process, ea + 100}, data), memory::Fault::kNone);
  EXPECT_EQ(read(process, ea + 100, data.size()), data);
  std::vector<std::byte> loaded(data.size());
  ASSERT_EQ(memory::load(loaded, {&process, ea + 100}), memory::Fault::kNone);
  EXPECT_EQ(loaded, data);
  ASSERT_EQ(memory::copy({&process, ea + 2 * kPageBytes + 7}, {&process, ea + 100}, 300),
            memory::Fault::kNone);
  EXPECT_EQ(read(process, ea + 2 * kPageBytes + 7, 300),
            std::vector(data.begin(), data.begin() + 300));
}

TEST_P(ProcessMemoryTest, reaches_only_its_own_segments) {
  // B4.1: the node isolates processes fully.
  ProcessMemory other(node);
  const std::uint64_t mine = *process.allocate(1);
  const std::uint64_t theirs =
      *other.set_segment(77, node.create_segment(1, PageRights::kReadWrite));
  process.open_queue_pair(queue_pair(1));
  other.open_queue_pair(queue_pair(2));
  ASSERT_EQ(other.write(theirs, bytes(16, 3)), memory::Fault::kNone);
  std::array<std::byte, 16> loot{};
  EXPECT_EQ(memory::load(loot, {&process, theirs}), memory::Fault::kNoSegment);
  EXPECT_EQ(process.read(theirs, loot), memory::Fault::kNoSegment);
  EXPECT_EQ(process.check(theirs, 16, memory::Intent::kRead), memory::Fault::kNoSegment);
  // The same effective address in two processes is two places.
  const std::uint64_t again = *other.allocate(1);
  ASSERT_EQ(again, mine);
  ASSERT_EQ(memory::store({&process, mine}, bytes(16, 4)), memory::Fault::kNone);
  EXPECT_EQ(read(other, again, 16), std::vector<std::byte>(16));
}

TEST_P(ProcessMemoryTest, no_segment_entry_is_refused_at_any_address) {
  // B4.4
  process.open_queue_pair(queue_pair(1));
  std::array<std::byte, 8> word{};
  for (const std::uint64_t ea : {std::uint64_t{0}, std::uint64_t{5} << 40, ~std::uint64_t{0} - 8}) {
    EXPECT_EQ(memory::store({&process, ea}, word), memory::Fault::kNoSegment);
    EXPECT_EQ(memory::load(word, {&process, ea}), memory::Fault::kNoSegment);
    EXPECT_EQ(process.check(ea, 8, memory::Intent::kRead), memory::Fault::kNoSegment);
  }
  EXPECT_FALSE(process.set_segment(SegmentTable::kMaxSegments, SegmentNumber(1)));
}

TEST_P(ProcessMemoryTest, pages_that_do_not_exist_or_forbid_it_are_faults) {
  const std::uint64_t ea = *process.allocate(3);
  process.open_queue_pair(queue_pair(1));
  std::array<std::byte, 8> word{};
  ASSERT_EQ(memory::store({&process, ea + 8}, word), memory::Fault::kNone);
  EXPECT_EQ(memory::store({&process, ea + 3 * kPageBytes}, word), memory::Fault::kUnmapped);
  EXPECT_EQ(process.check(ea, 3 * kPageBytes + 1, memory::Intent::kRead), memory::Fault::kUnmapped);
  node.protect(*process.virtual_page(ea), PageRights::kRead);
  EXPECT_EQ(memory::store({&process, ea + 8}, word), memory::Fault::kProtection);
  EXPECT_EQ(memory::load(word, {&process, ea + 8}), memory::Fault::kNone);
  EXPECT_EQ(process.check(ea, kPageBytes, memory::Intent::kWrite), memory::Fault::kProtection);
  EXPECT_EQ(process.check(ea, kPageBytes, memory::Intent::kRead), memory::Fault::kNone);
  node.unmap_page(*process.virtual_page(ea));
  EXPECT_EQ(memory::load(word, {&process, ea + 8}), memory::Fault::kUnmapped);
  node.map_page(*process.virtual_page(ea), PageRights::kReadWrite);
  EXPECT_EQ(memory::load(word, {&process, ea + 8}), memory::Fault::kNone);
  EXPECT_EQ(process.check(ea, ~std::size_t{0}, memory::Intent::kRead), memory::Fault::kUnmapped);
  EXPECT_EQ(process.check(ea, 0, memory::Intent::kRead), memory::Fault::kUnmapped);
}

TEST_P(ProcessMemoryTest, atomics_work_on_the_real_frame) {
  const std::uint64_t ea = *process.allocate(1);
  process.open_queue_pair(queue_pair(1));
  EXPECT_EQ(memory::fetch_add({&process, ea + 16}, 5), 0U);
  EXPECT_EQ(memory::fetch_add({&process, ea + 16}, 5), 5U);
  EXPECT_EQ(memory::compare_swap({&process, ea + 16}, 10, 77), 10U);
  EXPECT_EQ(read(process, ea + 16, 1)[0], std::byte{77});
  EXPECT_EQ(memory::fetch_add({&process, ea + 17}, 5).error(), memory::Fault::kProtection);
}

TEST_P(ProcessMemoryTest, the_observer_hears_of_every_written_byte_and_of_no_other) {
  const std::uint64_t ea = *process.allocate(4);
  std::vector<int> heard(4 * kPageBytes);
  process.set_write_observer([&](ProcessMemory& who, std::uint64_t at, std::size_t n) {
    EXPECT_EQ(&who, &process);
    // The bytes are in place when the observer is told.
    EXPECT_EQ(read(process, at, 1)[0], std::byte{9});
    for (std::size_t i = 0; i < n; ++i) ++heard[at - ea + i];
  });
  const std::vector<std::byte> data(2 * kPageBytes, std::byte{9});
  ASSERT_EQ(memory::store({&process, ea + 50}, data), memory::Fault::kNone);
  ASSERT_EQ(process.write(ea + 3 * kPageBytes, std::span(data).first(8)), memory::Fault::kNone);
  std::array<std::byte, 8> word{};
  ASSERT_EQ(memory::load(word, {&process, ea}), memory::Fault::kNone);
  for (std::size_t i = 0; i < heard.size(); ++i) {
    ASSERT_EQ(heard[i], i >= 50 && i < 50 + data.size() ? 1 : 0) << i;
  }
}

TEST_P(ProcessMemoryTest, two_processes_share_a_segment_at_different_addresses) {
  // B4.12: one update of the mapping serves both.
  ProcessMemory other(node);
  const SegmentNumber segment = node.create_segment(2, PageRights::kReadWrite);
  const std::uint64_t here = *process.set_segment(3, segment);
  const std::uint64_t there = *other.set_segment(900, segment);
  ASSERT_NE(here, there);
  process.open_queue_pair(queue_pair(1));
  other.open_queue_pair(queue_pair(2));
  const auto data = bytes(64, 8);
  ASSERT_EQ(memory::store({&process, here + 10}, data), memory::Fault::kNone);
  std::vector<std::byte> seen(64);
  ASSERT_EQ(memory::load(seen, {&other, there + 10}), memory::Fault::kNone);
  EXPECT_EQ(seen, data);

  ASSERT_TRUE(node.migrate(page_of(segment, 0)));
  for (auto [p, ea] : {std::pair{&process, here}, std::pair{&other, there}}) {
    std::fill(seen.begin(), seen.end(), std::byte{0});
    ASSERT_EQ(memory::load(seen, {p, ea + 10}), memory::Fault::kNone);
    EXPECT_EQ(seen, data);
  }
  node.protect(page_of(segment, 0), PageRights::kRead);
  EXPECT_EQ(memory::store({&process, here}, data), memory::Fault::kProtection);
  EXPECT_EQ(memory::store({&other, there}, data), memory::Fault::kProtection);
  node.unmap_page(page_of(segment, 0));
  EXPECT_EQ(memory::load(seen, {&process, here}), memory::Fault::kUnmapped);
  EXPECT_EQ(memory::load(seen, {&other, there}), memory::Fault::kUnmapped);
}

INSTANTIATE_TEST_SUITE_P(Tables, ProcessMemoryTest, testing::ValuesIn(test::kAllTables));

}  // namespace
}  // namespace weft::sim

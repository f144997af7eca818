#include "sim/controller_tables.h"

#include <gtest/gtest.h>

#include "unit/sim/memory_fixture.h"

namespace weft::sim {
namespace {

using test::bytes;
using test::queue_pair;

class ControllerTablesTest : public test::SimMemory {
 protected:
  memory::Fault touch(ProcessMemory& who, std::uint64_t ea,
                      memory::Intent intent = memory::Intent::kWrite) {
    const auto view = who.map(ea, 1, intent);
    if (!view) return view.error();
    who.unmap(*view);
    return memory::Fault::kNone;
  }
  const ControllerTables::Counters& counters() { return node.controller().counters(); }
};

TEST_P(ControllerTablesTest, one_table_serves_all_queue_pairs_of_a_process) {
  // B4.2: opening saves process, size and service, and takes the segment table once.
  EXPECT_EQ(process.context(), nullptr);
  for (std::uint32_t i = 1; i <= 5; ++i) process.open_queue_pair({Qpn(i), 10 * i, 2});
  EXPECT_EQ(counters().tables_taken, 1U);
  ASSERT_EQ(process.context()->queue_pairs().size(), 5U);
  EXPECT_EQ(process.context()->queue_pairs()[3].qpn, Qpn(4));
  EXPECT_EQ(process.context()->queue_pairs()[3].depth, 40U);
  EXPECT_EQ(process.context()->queue_pairs()[3].service, 2);
  for (std::uint32_t i = 1; i <= 5; ++i) process.close_queue_pair(Qpn(i));
  EXPECT_EQ(process.context(), nullptr);
  process.open_queue_pair(queue_pair(6));
  EXPECT_EQ(counters().tables_taken, 2U);
}

TEST_P(ControllerTablesTest, updates_of_the_segment_table_arrive_before_the_next_access) {
  // B4.2: add, change, delete.
  process.open_queue_pair(queue_pair(1));
  const SegmentNumber first = node.create_segment(1, PageRights::kReadWrite);
  const SegmentNumber second = node.create_segment(1, PageRights::kReadWrite);
  const std::uint64_t ea = std::uint64_t{9} << 40;
  EXPECT_EQ(touch(process, ea), memory::Fault::kNoSegment);
  ASSERT_TRUE(process.set_segment(9, first));
  ASSERT_EQ(memory::store({&process, ea}, bytes(8, 1)), memory::Fault::kNone);
  ASSERT_TRUE(process.set_segment(9, second));
  std::vector<std::byte> seen(8, std::byte{1});
  ASSERT_EQ(memory::load(seen, {&process, ea}), memory::Fault::kNone);
  EXPECT_EQ(seen, std::vector<std::byte>(8));
  process.delete_segment(9);
  EXPECT_EQ(touch(process, ea), memory::Fault::kNoSegment);
  EXPECT_EQ(counters().segment_updates, 3U);
}

TEST_P(ControllerTablesTest, only_the_process_that_changed_is_updated) {
  ProcessMemory other(node);
  process.open_queue_pair(queue_pair(1));
  other.open_queue_pair(queue_pair(2));
  const std::uint64_t ea = *process.allocate(1);
  EXPECT_EQ(counters().segment_updates, 1U);
  EXPECT_EQ(touch(process, ea), memory::Fault::kNone);
  EXPECT_EQ(touch(other, ea), memory::Fault::kNoSegment);
}

TEST_P(ControllerTablesTest, a_copied_table_is_the_controllers_own_and_a_shared_one_is_not) {
  process.open_queue_pair(queue_pair(1));
  ASSERT_TRUE(process.allocate(1));
  const bool shared = process.context()->segment(1) == process.segments().find(1);
  EXPECT_EQ(shared, GetParam().segments == SegmentTables::kShared);
}

TEST_P(ControllerTablesTest, page_changes_arrive_before_the_next_access) {
  // B4.2, B4.4: whatever the controller remembers of a page is gone when the page moves.
  const std::uint64_t ea = *process.allocate(2);
  process.open_queue_pair(queue_pair(1));
  const VirtualPage page = *process.virtual_page(ea);
  const auto data = bytes(100, 5);
  std::vector<std::byte> seen(100);
  const auto expect_data = [&](const char* when) {
    ASSERT_EQ(memory::load(seen, {&process, ea}), memory::Fault::kNone) << when;
    EXPECT_EQ(seen, data) << when;
  };
  ASSERT_EQ(memory::store({&process, ea}, data), memory::Fault::kNone);
  ASSERT_TRUE(node.migrate(page));
  expect_data("moved");
  ASSERT_EQ(node.evict(64), 1U);
  expect_data("swapped");
  node.protect(page, PageRights::kRead);
  expect_data("protected");
  EXPECT_EQ(touch(process, ea), memory::Fault::kProtection);
  node.protect(page, PageRights::kReadWrite);
  EXPECT_EQ(touch(process, ea), memory::Fault::kNone);
  node.unmap_page(page);
  EXPECT_EQ(touch(process, ea, memory::Intent::kRead), memory::Fault::kUnmapped);
}

TEST_P(ControllerTablesTest, a_private_page_table_saves_walks_of_the_systems) {
  const std::uint64_t ea = *process.allocate(1);
  process.open_queue_pair(queue_pair(1));
  for (int i = 0; i < 10; ++i) ASSERT_EQ(touch(process, ea), memory::Fault::kNone);
  const bool is_private = GetParam().pages == PageTables::kPrivate;
  EXPECT_EQ(counters().private_hits, is_private ? 9U : 0U);
}

INSTANTIATE_TEST_SUITE_P(Tables, ControllerTablesTest, testing::ValuesIn(test::kAllTables));

}  // namespace
}  // namespace weft::sim

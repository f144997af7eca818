// Keys over simulated memory: what a peer may reach on a node where pages come and go.
#include <gtest/gtest.h>

#include "base/random.h"
#include "memory/key_table.h"
#include "sim/kernel_memory.h"
#include "unit/sim/memory_fixture.h"

namespace weft::sim {
namespace {

using test::bytes;
using test::queue_pair;

constexpr PdId kPd{1};
constexpr Qpn kQpn{2};
constexpr Access kAll =
    Access::kLocalWrite | Access::kRemoteRead | Access::kRemoteWrite | Access::kWindowBind;

class SimKeys : public test::SimMemory {
 protected:
  memory::RegionSpec spec(memory::Vmm& vmm, std::uint64_t address, std::uint64_t length,
                          Access access = kAll) {
    return {&vmm, kPd, address, length, access, std::nullopt};
  }
  // A whole RDMA write as a responder does it.
  tl::expected<memory::Fault, memory::AccessError> write(memory::KeyTable& keys, RemoteKey rkey,
                                                         std::uint64_t address,
                                                         std::span<const std::byte> data) {
    const memory::RemoteAccess access{kPd, kQpn, address, data.size(), Access::kRemoteWrite, 1};
    const auto place = keys.check_remote(rkey, access);
    if (!place) return tl::unexpected(place.error());
    memory::Flight::Scope scope;
    scope.adopt(memory::Hold::kRemote);
    return memory::store(*place, data);
  }

  base::SeededRandom random{5};
  memory::KeyTable table{random};
};

TEST_P(SimKeys, registration_needs_memory_of_the_process_itself) {
  // B4.1
  ProcessMemory other(node);
  const std::uint64_t theirs =
      *other.set_segment(50, node.create_segment(1, PageRights::kReadWrite));
  EXPECT_EQ(table.register_region(spec(process, theirs, 8)).error().code, Errc::kBadAddress);
  EXPECT_TRUE(table.register_region(spec(other, theirs, 8)));
  const std::uint64_t read_only = *process.allocate(1, PageRights::kRead);
  EXPECT_EQ(table.register_region(spec(process, read_only, 8)).error().code, Errc::kBadAddress);
  EXPECT_TRUE(table.register_region(spec(process, read_only, 8, Access::kRemoteRead)));
}

TEST_P(SimKeys, a_remote_write_to_a_swapped_out_page_completes) {
  // B4.4
  const std::uint64_t ea = *process.allocate(4);
  process.open_queue_pair(queue_pair(1));
  const auto keys = *table.register_region(spec(process, ea, 4 * kPageBytes));
  ASSERT_EQ(process.write(ea, bytes(4 * kPageBytes, 1)), memory::Fault::kNone);
  ASSERT_EQ(node.evict(10), 4U);
  EXPECT_EQ(write(table, keys.rkey, ea + 4000, bytes(5000, 9)), memory::Fault::kNone);
  EXPECT_EQ(test::read(process, ea + 4000, 5000), bytes(5000, 9));
}

TEST_P(SimKeys, binding_memory_that_went_away_is_an_invalid_parameter) {
  // B4.7
  const std::uint64_t ea = *process.allocate(2);
  const auto keys = *table.register_region(spec(process, ea, 2 * kPageBytes));
  const auto window = *table.allocate_window(kPd, memory::WindowType::kType1);
  memory::BindSpec bind{window, 0, keys.lkey, ea, 2 * kPageBytes, Access::kRemoteWrite, kPd, kQpn};
  node.protect(*process.virtual_page(ea + kPageBytes), PageRights::kRead);
  EXPECT_EQ(table.bind(bind).error().code, Errc::kInvalidArgument);
  bind.length = kPageBytes;
  EXPECT_TRUE(table.bind(bind));
  process.delete_segment(1);
  EXPECT_EQ(write(table, keys.rkey, ea, bytes(8, 1)), memory::Fault::kNoSegment);
}

TEST_P(SimKeys, a_user_binds_effective_addresses_and_a_kernel_virtual_ones) {
  // B4.7, B4.3
  KernelMemory kernel(node);
  const std::uint64_t va = std::uint64_t{0xABC} << 40;
  const FrameNumber frame = *node.allocate_frame();
  ASSERT_TRUE(kernel.map_local_page(va, std::uint64_t{frame.value} * kPageBytes));
  EXPECT_FALSE(table.register_region(spec(process, va, 64)));
  const auto keys =
      table.register_region(spec(kernel, va, kPageBytes, kAll | Access::kOpaqueAddress));
  ASSERT_TRUE(keys);
  EXPECT_NE(keys->iova, va);
  EXPECT_NE(keys->iova, std::uint64_t{frame.value} * kPageBytes);
  EXPECT_EQ(write(table, keys->rkey, keys->iova + 8, bytes(16, 3)), memory::Fault::kNone);
  EXPECT_TRUE(std::ranges::equal(node.bytes(frame).subspan(8, 16), bytes(16, 3)));
  EXPECT_EQ(write(table, keys->rkey, va + 8, bytes(16, 3)).error(),
            memory::AccessError::kOutOfRange);
}

TEST_P(SimKeys, each_of_two_sharers_binds_its_own_keys) {
  // B4.12
  ProcessMemory other(node);
  memory::KeyTable other_table(random);
  const SegmentNumber segment = node.create_segment(1, PageRights::kReadWrite);
  const std::uint64_t here = *process.set_segment(2, segment);
  const std::uint64_t there = *other.set_segment(3, segment);
  process.open_queue_pair(queue_pair(1));
  other.open_queue_pair(queue_pair(2));
  const auto mine = *table.register_region(spec(process, here, kPageBytes));
  const auto theirs = *other_table.register_region(spec(other, there, kPageBytes));
  EXPECT_EQ(write(table, mine.rkey, here, bytes(32, 1)), memory::Fault::kNone);
  EXPECT_EQ(write(other_table, theirs.rkey, there + 32, bytes(32, 2)), memory::Fault::kNone);
  ASSERT_EQ(node.evict(1), 1U);
  EXPECT_EQ(test::read(other, there, 32), bytes(32, 1));
  EXPECT_EQ(test::read(process, here + 32, 32), bytes(32, 2));
  EXPECT_FALSE(write(other_table, mine.rkey, here, bytes(8, 1)));
}

// The seed's rule holds as it stands: what a process may bind is what its segment table names.
TEST_P(SimKeys, a_process_binds_all_of_its_segments_and_none_of_others) {
  // B4.13, B4.1
  const auto keys = *table.register_region(
      memory::RegionSpec::whole_space(&process, kPd, Access::kLocalWrite | Access::kWindowBind));
  const std::uint64_t ea = *process.allocate(2);  // after the registration
  ProcessMemory other(node);
  const std::uint64_t theirs =
      *other.set_segment(50, node.create_segment(1, PageRights::kReadWrite));
  const auto window = *table.allocate_window(kPd, memory::WindowType::kType1);
  const auto bind = [&](RemoteKey key, std::uint64_t address, std::uint64_t length) {
    return table.bind({key, 0, keys.lkey, address, length, Access::kRemoteWrite, kPd, kQpn});
  };
  EXPECT_EQ(bind(window, theirs, 8).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(bind(window, ea, 2 * kPageBytes + 1).error().code, Errc::kInvalidArgument);
  const auto bound = bind(window, ea + 100, kPageBytes);
  ASSERT_TRUE(bound);
  ASSERT_EQ(process.write(ea, bytes(2 * kPageBytes, 1)), memory::Fault::kNone);
  ASSERT_EQ(node.evict(2), 2u);
  const auto place =
      table.check_remote(*bound, {kPd, kQpn, ea + 100, 200, Access::kRemoteWrite, 1});
  ASSERT_TRUE(place);
  EXPECT_EQ(memory::store(*place, bytes(200, 2)), memory::Fault::kNone);
  memory::Flight::clear(memory::Hold::kRemote);
  EXPECT_EQ(test::read(process, ea + 100, 200), bytes(200, 2));
}
INSTANTIATE_TEST_SUITE_P(Tables, SimKeys, testing::ValuesIn(test::kAllTables));

}  // namespace
}  // namespace weft::sim

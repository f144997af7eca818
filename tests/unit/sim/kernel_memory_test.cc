#include <gtest/gtest.h>

#include "sim/kernel_memory.h"
#include "unit/sim/memory_fixture.h"

namespace weft::sim {
namespace {

using test::bytes;

constexpr std::uint64_t kVirtual = 0xFFFF'8000'0000'0000;

class KernelMemoryTest : public testing::Test {
 protected:
  std::uint64_t physical_page() { return std::uint64_t{node.allocate_frame()->value} * kPageBytes; }
  NodeMemory node{test::settings(test::kAllTables[0], 8)};
  KernelMemory kernel{node};
};

TEST_F(KernelMemoryTest, reaches_physical_pages_by_virtual_addresses) {
  // B4.3: MapLocalPage.
  const FrameNumber first = *node.allocate_frame(), second = *node.allocate_frame();
  ASSERT_TRUE(kernel.map_local_page(kVirtual, std::uint64_t{second.value} * kPageBytes));
  ASSERT_TRUE(
      kernel.map_local_page(kVirtual + kPageBytes, std::uint64_t{first.value} * kPageBytes));
  const auto data = bytes(kPageBytes, 1);
  ASSERT_EQ(memory::store({&kernel, kVirtual + 96}, data), memory::Fault::kNone);
  EXPECT_TRUE(std::equal(data.begin(), data.end() - 96, node.bytes(second).begin() + 96));
  EXPECT_TRUE(std::equal(data.end() - 96, data.end(), node.bytes(first).begin()));
}

TEST_F(KernelMemoryTest, a_page_never_mapped_is_an_error_to_the_handler_which_may_map_it) {
  // B4.4
  std::array<std::byte, 64> buffer{};
  EXPECT_EQ(memory::load(buffer, {&kernel, kVirtual}), memory::Fault::kUnmapped);
  EXPECT_EQ(kernel.unmapped_errors(), 1U);
  std::vector<std::uint64_t> told;
  kernel.set_unmapped_handler([&](KernelMemory& who, std::uint64_t address) {
    told.push_back(address);
    if (address < kVirtual + 2 * kPageBytes) {
      EXPECT_TRUE(who.map_local_page(address & ~(kPageBytes - 1), physical_page()));
    }
  });
  EXPECT_EQ(memory::store({&kernel, kVirtual + 10}, bytes(kPageBytes, 1)), memory::Fault::kNone);
  EXPECT_EQ(told, (std::vector<std::uint64_t>{kVirtual + 10, kVirtual + kPageBytes}));
  std::vector<std::byte> seen(kPageBytes);
  EXPECT_EQ(memory::load(seen, {&kernel, kVirtual + 10}), memory::Fault::kNone);
  EXPECT_EQ(seen, bytes(kPageBytes, 1));
  EXPECT_EQ(memory::load(buffer, {&kernel, kVirtual + 2 * kPageBytes}), memory::Fault::kUnmapped);
  EXPECT_EQ(told.size(), 3U);
}

TEST_F(KernelMemoryTest, unmapping_ends_the_access) {
  ASSERT_TRUE(kernel.map_local_page(kVirtual, physical_page()));
  std::array<std::byte, 8> word{};
  EXPECT_EQ(memory::load(word, {&kernel, kVirtual}), memory::Fault::kNone);
  kernel.unmap_local_page(kVirtual);
  EXPECT_EQ(memory::load(word, {&kernel, kVirtual}), memory::Fault::kUnmapped);
}

TEST_F(KernelMemoryTest, rights_hold_for_the_kernel_too) {
  ASSERT_TRUE(kernel.map_local_page(kVirtual, physical_page(), PageRights::kRead));
  EXPECT_EQ(kernel.check(kVirtual, 8, memory::Intent::kRead), memory::Fault::kNone);
  EXPECT_EQ(kernel.check(kVirtual, 8, memory::Intent::kWrite), memory::Fault::kProtection);
  EXPECT_EQ(memory::store({&kernel, kVirtual}, bytes(8, 1)), memory::Fault::kProtection);
}

TEST_F(KernelMemoryTest, checks_pass_what_is_mapped_or_what_the_handler_may_map) {
  ASSERT_TRUE(kernel.map_local_page(kVirtual, physical_page()));
  EXPECT_EQ(kernel.check(kVirtual, kPageBytes, memory::Intent::kWrite), memory::Fault::kNone);
  EXPECT_EQ(kernel.check(kVirtual, kPageBytes + 1, memory::Intent::kWrite),
            memory::Fault::kUnmapped);
  EXPECT_EQ(kernel.check(kVirtual, ~std::size_t{0}, memory::Intent::kWrite),
            memory::Fault::kUnmapped);
  kernel.set_unmapped_handler([](KernelMemory&, std::uint64_t) {});
  EXPECT_EQ(kernel.check(kVirtual, kPageBytes + 1, memory::Intent::kWrite), memory::Fault::kNone);
}

TEST_F(KernelMemoryTest, refuses_addresses_inside_a_page_and_frames_that_do_not_exist) {
  EXPECT_FALSE(kernel.map_local_page(kVirtual + 1, 0));
  EXPECT_FALSE(kernel.map_local_page(kVirtual, 1));
  EXPECT_FALSE(kernel.map_local_page(kVirtual, 8 * kPageBytes));
}

TEST_F(KernelMemoryTest, a_mapped_page_of_a_process_is_kept_from_eviction) {
  ProcessMemory process(node);
  const std::uint64_t ea = *process.allocate(2);
  ASSERT_EQ(process.write(ea, bytes(2 * kPageBytes, 6)), memory::Fault::kNone);
  const FrameNumber frame = *node.resolve(*process.virtual_page(ea), memory::Intent::kRead);
  ASSERT_TRUE(kernel.map_local_page(kVirtual, std::uint64_t{frame.value} * kPageBytes));
  EXPECT_EQ(node.evict(8), 1U);
  std::vector<std::byte> seen(64);
  ASSERT_EQ(memory::load(seen, {&kernel, kVirtual}), memory::Fault::kNone);
  EXPECT_EQ(seen, bytes(64, 6));
}

}  // namespace
}  // namespace weft::sim

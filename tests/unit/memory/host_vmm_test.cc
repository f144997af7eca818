#include "memory/host_vmm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "unit/memory/pages.h"

namespace weft::memory {
namespace {

using test::page_bytes;
using test::Pages;

TEST(HostVmm, takes_addresses_for_pointers) {
  HostVmm vmm;
  EXPECT_TRUE(vmm.identity());
  int value = 0;
  const auto view = vmm.map(reinterpret_cast<std::uint64_t>(&value), 4, Intent::kWrite);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->data, reinterpret_cast<std::byte*>(&value));
  EXPECT_EQ(view->size, 4U);
}

TEST(HostVmm, passes_memory_that_the_process_may_touch) {
  HostVmm vmm;
  const Pages small(3), large(100);
  EXPECT_EQ(vmm.check(small.address(), small.size(), Intent::kWrite), Fault::kNone);
  EXPECT_EQ(vmm.check(small.address() + 17, 1, Intent::kWrite), Fault::kNone);
  EXPECT_EQ(vmm.check(large.address() + 1, large.size() - 2, Intent::kWrite), Fault::kNone);
}

TEST(HostVmm, refuses_a_hole_anywhere_in_the_range) {
  // B4.1, B4.7: only memory that the process may touch itself.
  HostVmm vmm;
  for (const std::size_t count : {5U, 100U}) {
    for (const std::size_t hole : {std::size_t{0}, count / 2, count - 1}) {
      const Pages pages(count);
      pages.unmap(hole);
      EXPECT_EQ(vmm.check(pages.address(), pages.size(), Intent::kRead), Fault::kUnmapped)
          << hole << " of " << count;
    }
  }
}

TEST(HostVmm, refuses_to_write_where_the_process_may_only_read) {
  // B4.14
  HostVmm vmm;
  for (const std::size_t count : {5U, 100U}) {
    for (const std::size_t where : {std::size_t{0}, count / 2, count - 1}) {
      const Pages pages(count);
      pages.protect(where, PROT_READ);
      EXPECT_EQ(vmm.check(pages.address(), pages.size(), Intent::kWrite), Fault::kProtection);
      EXPECT_EQ(vmm.check(pages.address(), pages.size(), Intent::kRead), Fault::kNone);
      pages.protect(where, PROT_NONE);
      EXPECT_EQ(vmm.check(pages.address(), pages.size(), Intent::kWrite), Fault::kProtection);
      // In the middle of a long range an access finds out.
      if (count > HostVmm::kProbedPages && where == count / 2) continue;
      EXPECT_EQ(vmm.check(pages.address(), pages.size(), Intent::kRead), Fault::kProtection);
    }
  }
}

TEST(HostVmm, checks_a_long_range_without_bringing_it_into_memory) {
  HostVmm vmm;
  const Pages pages(1000);
  EXPECT_EQ(vmm.check(pages.address(), pages.size(), Intent::kWrite), Fault::kNone);
  std::vector<unsigned char> resident(1000);
  ASSERT_EQ(mincore(pages.data(), pages.size(), resident.data()), 0);
  EXPECT_LE(std::count_if(resident.begin(), resident.end(), [](auto page) { return page & 1; }), 2);
}

TEST(HostVmm, checks_every_page_of_a_range_that_is_several_mappings) {
  HostVmm vmm;
  const Pages pages(300);
  for (std::size_t i = 0; i < 300; i += 2) {
    ASSERT_EQ(madvise(pages.page(i), page_bytes(), MADV_DONTFORK), 0);  // 300 lines of the list
  }
  EXPECT_EQ(vmm.check(pages.address(), pages.size(), Intent::kWrite), Fault::kNone);
  EXPECT_EQ(vmm.check(pages.address() + 5, pages.size() - 9, Intent::kWrite), Fault::kNone);
  pages.protect(200, PROT_READ);
  EXPECT_EQ(vmm.check(pages.address(), pages.size(), Intent::kRead), Fault::kNone);
  EXPECT_EQ(vmm.check(pages.address(), pages.size(), Intent::kWrite), Fault::kProtection);
  EXPECT_EQ(vmm.check(pages.address(), 150 * page_bytes(), Intent::kWrite), Fault::kNone);
}

TEST(HostVmm, refuses_ranges_that_are_empty_wrap_or_start_at_null) {
  HostVmm vmm;
  const Pages pages(1);
  EXPECT_EQ(vmm.check(pages.address(), 0, Intent::kRead), Fault::kUnmapped);
  EXPECT_EQ(vmm.check(0, 16, Intent::kRead), Fault::kUnmapped);
  EXPECT_EQ(vmm.check(pages.address(), ~std::size_t{0}, Intent::kRead), Fault::kUnmapped);
  EXPECT_EQ(vmm.check(~std::uint64_t{0} - 3, 4, Intent::kRead), Fault::kUnmapped);
}

TEST(HostVmm, refuses_the_part_of_a_file_that_was_cut_off) {
  HostVmm vmm;
  const test::TruncatedFile file;
  const auto& pages = file.pages();
  EXPECT_EQ(vmm.check(pages.address(), pages.size(), Intent::kRead), Fault::kUnmapped);
  EXPECT_EQ(vmm.check(pages.address(), pages.size() / 2, Intent::kWrite), Fault::kNone);
}

TEST(HostVmm, leaves_the_bytes_as_they_are) {
  HostVmm vmm;
  const Pages pages(3);
  test::fill_pattern({pages.data(), pages.size()});
  EXPECT_EQ(vmm.check(pages.address(), pages.size(), Intent::kWrite), Fault::kNone);
  for (std::size_t i = 0; i < pages.size(); ++i) ASSERT_EQ(pages.data()[i], test::pattern(i));
}

}  // namespace
}  // namespace weft::memory

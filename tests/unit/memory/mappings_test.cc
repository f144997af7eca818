#include "memory/mappings.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <random>

#include "unit/memory/pages.h"

namespace weft::memory {
namespace {

/// Pages of all kinds, side by side: readable, writable, neither, and none.
class Mappings : public testing::Test {
 protected:
  static constexpr std::size_t kPages = 64;

  Mappings() : pages_(kPages) {
    for (std::size_t i = 0; i < kPages; ++i) {
      std::byte* page = pages_.data() + i * test::page_bytes();
      switch (random_() % 6) {
        case 0:
          mprotect(page, test::page_bytes(), PROT_READ);
          break;
        case 1:
          mprotect(page, test::page_bytes(), PROT_NONE);
          break;
        case 2:
          munmap(page, test::page_bytes());
          break;
        default:
          break;
      }
    }
  }

  std::mt19937 random_{11};
  test::Pages pages_;
};

TEST_F(Mappings, are_told_alike_by_question_and_by_list) {
  // B4.2
  std::array<int, 3> seen{};
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t first = pages_.address() + random_() % (kPages * test::page_bytes());
    const std::uint64_t left = pages_.address() + kPages * test::page_bytes() - first;
    const std::uint64_t last = first + random_() % std::min(left, 4 * test::page_bytes());
    for (const Intent intent : {Intent::kRead, Intent::kWrite}) {
      const auto best = check_mappings(first, last, intent);
      const auto list = check_mappings(first, last, intent, MappingSource::kList);
      ASSERT_TRUE(best.has_value() && list.has_value());
      ASSERT_EQ(*best, *list) << first << " to " << last;
      ++seen[*best == Fault::kNone ? 0 : *best == Fault::kProtection ? 1 : 2];
    }
  }
  for (const int times : seen) EXPECT_GT(times, 100);
}

}  // namespace
}  // namespace weft::memory

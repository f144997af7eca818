#include "base/bulk_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace weft::base {
namespace {

std::vector<unsigned char> counted(std::size_t n) {
  std::vector<unsigned char> bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<unsigned char>(i * 7 + i / 251);
  return bytes;
}

TEST(BulkCopy, copies_every_byte_at_every_distance_within_a_page) {
  const auto source = counted(20'000);
  std::vector<unsigned char> target(20'000 + 8192);
  for (const std::size_t n : {0u, 1u, 1024u, 2048u, 2049u, 4096u, 16'387u}) {
    for (std::size_t distance = 0; distance < 130; ++distance) {
      const auto from = reinterpret_cast<std::uintptr_t>(source.data());
      const auto base = reinterpret_cast<std::uintptr_t>(target.data());
      const std::size_t at = (from + distance - base) % 4096;
      std::fill(target.begin(), target.end(), static_cast<unsigned char>(0xEE));
      bulk_copy(&target[at], source.data(), n);
      ASSERT_EQ(0, std::memcmp(&target[at], source.data(), n)) << n << " at " << distance;
      ASSERT_EQ(0xEE, target[at + n]) << n << " at " << distance;
    }
  }
}

TEST(BulkCopy, moves_what_overlaps_as_memmove_does) {
  constexpr std::size_t kBytes = 9000;
  for (const int distance : {-4095, -64, -8, -1, 1, 8, 63, 64, 4097, 4104}) {
    auto moved = counted(30'000), expected = moved;
    unsigned char* from = &moved[10'000];
    std::memmove(&expected[10'000] + distance, &expected[10'000], kBytes);
    bulk_copy(from + distance, from, kBytes);
    EXPECT_EQ(expected, moved) << distance;
  }
}

}  // namespace
}  // namespace weft::base

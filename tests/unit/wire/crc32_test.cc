// Each way to a CRC-32, against one bit at a time and against what the standard says.
#include "wire/crc32.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "wire/crc32_copy.h"
#include "wire_test_support.h"

namespace weft::wire {
namespace {

using test::Bytes;

struct Way {
  std::string name;
  std::uint32_t (*crc)(std::uint32_t, std::span<const std::byte>);
  bool (*is_there)() = [] { return true; };
  std::size_t least = 0;
};

class Crc32 : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (!GetParam().is_there()) GTEST_SKIP() << "not on this processor, or not in this build";
  }
  std::uint32_t crc(std::uint32_t start, std::span<const std::byte> bytes) const {
    return GetParam().crc(start, bytes);
  }
  std::size_t least() const { return GetParam().least; }
};

INSTANTIATE_TEST_SUITE_P(
    Over, Crc32,
    testing::Values(Way{"quickest", crc32}, Way{"tables", crc32_by_tables},
                    Way{"instructions", crc32_by_instructions, has_crc32_by_instructions},
                    Way{"blocks", crc32_by_blocks, has_crc32_copy, kLeastCrc32Copy}),
    [](const auto& p) { return p.param.name; });

TEST_P(Crc32, agrees_with_one_bit_at_a_time_at_every_size_and_place) {
  base::SeededRandom random(41);
  for (std::size_t size = least(); size <= 1300; ++size) {
    const Bytes bytes = test::random_bytes(random, size + 64);
    const auto piece = std::span(bytes).subspan(size % 61, size);
    ASSERT_EQ(crc(0, piece), test::bitwise_crc32(piece)) << size;
  }
}

TEST_P(Crc32, goes_on_where_another_piece_ended) {
  base::SeededRandom random(42);
  for (std::size_t before = 0; before < 40; ++before) {
    for (std::size_t size = least(); size <= least() + 300; size += 1 + size % 3) {
      const Bytes bytes = test::random_bytes(random, before + size);
      const auto [first, second] =
          std::pair(std::span(bytes).first(before), std::span(bytes).subspan(before));
      ASSERT_EQ(crc(crc32_by_tables(0, first), second), test::bitwise_crc32(bytes))
          << before << " " << size;
    }
  }
}

/// What lies around the bytes does not count: neither is it in the CRC, nor is it read where it may
/// not be (an address sanitizer sees that).
TEST_P(Crc32, covers_these_bytes_alone) {
  base::SeededRandom random(43);
  for (std::size_t size = least(); size <= least() + 200; ++size) {
    const Bytes exactly = test::random_bytes(random, size);
    Bytes among = test::random_bytes(random, size + 32);
    std::ranges::copy(exactly, among.begin() + 16);
    ASSERT_EQ(crc(7, exactly), crc(7, std::span(among).subspan(16, size))) << size;
  }
}

// The check value of this CRC in the catalogues of CRCs.
TEST(Crc32OfDigits, is_the_published_one) {
  const std::string digits = "123456789";
  for (const auto way : {crc32, crc32_by_tables}) {
    EXPECT_EQ(way(0, std::as_bytes(std::span(digits))), 0xCBF4'3926U);
  }
}

TEST(Crc32OfNothing, changes_nothing) {
  EXPECT_EQ(crc32(0, {}), 0U);
  EXPECT_EQ(crc32(0x1234, {}), 0x1234U);
}

}  // namespace
}  // namespace weft::wire

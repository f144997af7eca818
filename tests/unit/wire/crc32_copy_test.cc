// Copying and computing a CRC in one pass, against tables, against one bit at a time, and against
// doing it in two passes.
#include "wire/crc32_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "wire/crc32.h"
#include "wire/crc32_polynomial.h"
#include "wire/icrc.h"
#include "wire_test_support.h"

namespace weft::wire {
namespace {

using test::Bytes;

constexpr std::size_t kLongest = 1300;
constexpr std::byte kUntouched{0xA5};

/// A destination that knows whether what lies around it was left alone.
struct Target {
  Target(std::size_t before, std::size_t size)
      : all(before + size + 64, kUntouched), written(std::span(all).subspan(before, size)) {}
  bool holds(std::span<const std::byte> expected) const {
    const auto untouched = [](std::byte b) { return b == kUntouched; };
    const auto at = written.data() - all.data();
    return std::ranges::equal(written, expected) &&
           std::all_of(all.begin(), all.begin() + at, untouched) &&
           std::all_of(all.begin() + at + static_cast<std::ptrdiff_t>(written.size()), all.end(),
                       untouched);
  }
  Bytes all;
  std::span<std::byte> written;
};

TEST(Crc32Copy, agrees_with_tables_and_with_one_bit_at_a_time_at_every_size) {
  if (!has_crc32_copy()) GTEST_SKIP() << "not on this processor, or not in this build";
  base::SeededRandom random(31);
  for (std::size_t size = kLeastCrc32Copy; size <= kLongest; ++size) {
    const Bytes source = test::random_bytes(random, size + 64);
    const auto from = std::span(source).subspan(size % 61, size);
    const auto start = static_cast<std::uint32_t>(random.next());
    Target target(size % 53, size);
    ASSERT_EQ(crc32_copy(start, target.written.data(), from), crc32_by_tables(start, from)) << size;
    ASSERT_TRUE(target.holds(from)) << size;
    ASSERT_EQ(crc32_copy(0, target.written.data(), from), test::bitwise_crc32(from)) << size;
  }
}

TEST(Crc32Copy, covers_the_twelve_bytes_before) {
  if (!has_crc32_copy()) GTEST_SKIP() << "not on this processor, or not in this build";
  base::SeededRandom random(32);
  for (std::size_t size = kLeastCrc32Copy; size <= kLongest; ++size) {
    const Bytes both = test::random_bytes(random, 12 + size);
    std::uint32_t words[3];
    std::memcpy(words, both.data(), sizeof words);
    const auto from = std::span(both).subspan(12);
    const auto start = static_cast<std::uint32_t>(random.next());
    Target target(size % 59, size);
    ASSERT_EQ(crc32_copy(start, {words[0], words[1], words[2]}, target.written.data(), from),
              crc32_by_tables(start, both))
        << size;
    ASSERT_TRUE(target.holds(from)) << size;
  }
}

TEST(Crc32Copy, does_not_depend_on_where_bytes_lie_or_go) {
  if (!has_crc32_copy()) GTEST_SKIP() << "not on this processor, or not in this build";
  base::SeededRandom random(33);
  constexpr std::size_t kSize = 1024;
  const Bytes source = test::random_bytes(random, kSize + 64);
  for (std::size_t from_at = 0; from_at < 64; ++from_at) {
    const auto from = std::span(source).subspan(from_at, kSize);
    for (std::size_t to_at = 0; to_at < 64; ++to_at) {
      Target target(to_at, kSize);
      ASSERT_EQ(crc32_copy(7, target.written.data(), from), crc32_by_tables(7, from));
      ASSERT_TRUE(target.holds(from));
    }
  }
}

/// Of the polynomials behind its constants, by the schoolbook, with the highest power first.
TEST(Crc32Copy, knows_the_powers_of_x) {
  constexpr std::uint64_t kP = 0x1'04C1'1DB7;
  std::uint64_t power = 1;
  for (unsigned exponent = 0; exponent < 2200; ++exponent) {
    std::uint32_t reversed = 0;
    for (unsigned bit = 0; bit < 32; ++bit) {
      reversed |= static_cast<std::uint32_t>(power >> bit & 1) << (31 - bit);
    }
    ASSERT_EQ(power_of_x(exponent), reversed) << exponent;
    ASSERT_EQ(divided_by_x(times_x(reversed)), reversed);
    power <<= 1;
    if (power >> 32 != 0) power ^= kP;
  }
}

class HeadersOfSize : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Icrc, HeadersOfSize, testing::Values(Bth::kSize, 16, 28, 40),
                         testing::PrintToStringParamName());

TEST_P(HeadersOfSize, are_covered_with_what_is_copied_behind_them_in_one_pass_or_two) {
  base::SeededRandom random(34);
  const std::size_t headers = GetParam();
  const Icrc start = IcrcPrefix(Ipv4{}, Udp{}).start(100);
  for (std::size_t size = 0; size <= kLongest; ++size) {
    const Bytes block = test::random_bytes(random, headers + size);
    const std::span<const std::byte> rest = std::span(block).subspan(headers);
    const std::uint32_t expected = Icrc(start).add_first(block).value();
    for (const bool one_pass : {true, false}) {
      Target target(size % 64, headers + size);
      std::ranges::copy(std::span(block).first(headers), target.written.begin());
      Icrc icrc = start;
      one_pass ? icrc.add_first_copying(target.written.data(), headers, rest)
               : icrc.add_first_copying_before(target.written.data(), headers, rest);
      ASSERT_EQ(icrc.value(), expected) << size;
      ASSERT_TRUE(target.holds(block)) << size;
    }
  }
}

TEST(Icrc, adds_further_pieces_that_it_copies) {
  base::SeededRandom random(35);
  const Icrc start = IcrcPrefix(Ipv4{}, Udp{}).start(100);
  for (std::size_t size = 0; size <= kLongest; ++size) {
    const Bytes piece = test::random_bytes(random, size);
    Target target(size % 64, size);
    ASSERT_EQ(Icrc(start).add_copying(target.written.data(), piece).value(),
              Icrc(start).add(piece).value())
        << size;
    ASSERT_TRUE(target.holds(piece)) << size;
  }
}

}  // namespace
}  // namespace weft::wire

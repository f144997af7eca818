#include "memory/copy.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "memory/host_vmm.h"
#include "unit/memory/pages.h"

namespace weft::memory {
namespace {

using test::fill_pattern;
using test::page_bytes;
using test::Pages;
using test::pattern;

class Copy : public testing::Test {
 protected:
  Place place(const std::byte* at) { return {&vmm, reinterpret_cast<std::uint64_t>(at)}; }
  HostVmm vmm;
};

TEST_F(Copy, moves_exactly_the_asked_bytes_at_every_alignment) {
  std::array<std::byte, 96> source{}, target{};
  fill_pattern(source);
  for (std::size_t to = 0; to < 9; ++to) {
    for (std::size_t from = 0; from < 9; ++from) {
      for (std::size_t n = 0; n <= 70; ++n) {
        target.fill(std::byte{0xEE});
        ASSERT_EQ(copy(place(target.data() + to), place(source.data() + from), n), Fault::kNone);
        for (std::size_t i = 0; i < target.size(); ++i) {
          const bool inside = i >= to && i < to + n;
          ASSERT_EQ(target[i], inside ? source[i - to + from] : std::byte{0xEE})
              << to << ' ' << from << ' ' << n << ' ' << i;
        }
      }
    }
  }
}

TEST_F(Copy, moves_overlapping_ranges_as_if_through_a_buffer) {
  for (const int shift : {-24, -8, -3, -1, 1, 5, 8, 13, 24}) {
    for (const std::size_t n : {1U, 8U, 9U, 31U, 64U}) {
      std::array<std::byte, 128> bytes{};
      fill_pattern(bytes);
      ASSERT_EQ(copy(place(bytes.data() + 32 + shift), place(bytes.data() + 32), n), Fault::kNone);
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(bytes[static_cast<std::size_t>(32 + shift) + i], pattern(32 + i))
            << shift << ' ' << n;
      }
    }
  }
}

TEST_F(Copy, stores_and_loads_plain_buffers) {
  std::vector<std::byte> source(5000), middle(5000), back(5000);
  fill_pattern(source);
  ASSERT_EQ(store(place(middle.data()), source), Fault::kNone);
  ASSERT_EQ(load(back, place(middle.data())), Fault::kNone);
  EXPECT_EQ(back, source);
}

TEST_F(Copy, gives_an_error_for_memory_that_vanished) {
  // B4.9: the owner does not crash, whatever the peer sends; its memory may be gone by now.
  const Pages pages(3);
  std::vector<std::byte> buffer(page_bytes() * 2);
  pages.unmap(1);
  for (const std::size_t n : {1U, 2U, 4U, 8U, 3U, 64U, 4096U}) {
    EXPECT_EQ(store(place(pages.page(1)), std::span(buffer).first(n)), Fault::kUnmapped) << n;
    EXPECT_EQ(load(std::span(buffer).first(n), place(pages.page(1))), Fault::kUnmapped) << n;
    EXPECT_EQ(copy(place(pages.page(1)), place(pages.page(0)), n), Fault::kUnmapped) << n;
    EXPECT_EQ(copy(place(pages.page(0)), place(pages.page(1)), n), Fault::kUnmapped) << n;
  }
  EXPECT_EQ(store(place(pages.page(0) + 100), buffer), Fault::kUnmapped);
}

TEST_F(Copy, gives_an_error_for_memory_that_became_read_only) {
  const Pages pages(1);
  std::array<std::byte, 64> buffer{};
  fill_pattern(std::span(pages.data(), 64));
  pages.protect(0, PROT_READ);
  for (const std::size_t n : {1U, 2U, 4U, 8U, 3U, 64U}) {
    EXPECT_EQ(store(place(pages.data()), std::span(buffer).first(n)), Fault::kProtection) << n;
    EXPECT_EQ(load(std::span(buffer).first(n), place(pages.data())), Fault::kNone) << n;
    buffer.fill(std::byte{0});
  }
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(pages.data()[i], pattern(i));
}

TEST_F(Copy, gives_an_error_past_the_end_of_a_truncated_file) {
  const test::TruncatedFile file;
  std::array<std::byte, 64> buffer{};
  for (const std::size_t n : {1U, 8U, 64U}) {
    EXPECT_EQ(store(place(file.pages().page(1)), std::span(buffer).first(n)), Fault::kUnmapped);
    EXPECT_EQ(load(std::span(buffer).first(n), place(file.pages().page(1))), Fault::kUnmapped);
  }
  EXPECT_EQ(store(place(file.pages().page(1) - 32), buffer), Fault::kUnmapped);
}

TEST_F(Copy, does_not_write_the_end_when_the_middle_is_gone) {
  // A program that polls on the last word must never see it without the rest.
  const Pages pages(3);
  std::vector<std::byte> buffer(pages.size(), std::byte{0x77});
  pages.unmap(1);
  EXPECT_EQ(store(place(pages.data()), buffer), Fault::kUnmapped);
  EXPECT_EQ(pages.data()[pages.size() - 1], std::byte{0});
}

TEST_F(Copy, writes_the_last_word_after_everything_else) {
  // The first byte cannot be written, so the last word must not have been, in either direction.
  const Pages pages(2);
  std::vector<std::byte> source(600, std::byte{0x77});
  for (std::size_t n = 2; n <= source.size(); ++n) {
    for (const std::size_t in_first : {1U, 5U, 8U}) {
      if (in_first >= n) continue;
      pages.protect(0, PROT_READ | PROT_WRITE);
      std::memset(pages.data(), 0, pages.size());
      std::memset(pages.page(1) - 64, 0x11, 64);
      pages.protect(0, PROT_READ);
      std::byte* const to = pages.page(1) - in_first;
      const std::byte* const last = to + n - 1;
      ASSERT_EQ(store(place(to), std::span(source).first(n)), Fault::kProtection);
      ASSERT_EQ(*last, std::byte{0}) << n << " bytes";
      // An overlapping source lower down makes the body run backwards; the end is last all the
      // same.
      if (n <= 64) continue;
      std::memset(pages.page(1), 0x22, n);
      std::byte* const end = to + n - 1;
      *end = std::byte{0};
      ASSERT_EQ(copy(place(to), place(to - 16), n), Fault::kProtection);
      ASSERT_EQ(*end, std::byte{0}) << n << " overlapping bytes";
    }
  }
}

TEST_F(Copy, swaps_and_adds_on_the_real_memory) {
  alignas(8) std::uint64_t word = 10;
  const Place at{&vmm, reinterpret_cast<std::uint64_t>(&word)};
  EXPECT_EQ(fetch_add(at, 5), 10U);
  EXPECT_EQ(word, 15U);
  EXPECT_EQ(fetch_add(at, ~std::uint64_t{0}), 15U);
  EXPECT_EQ(word, 14U);
  EXPECT_EQ(compare_swap(at, 13, 99), 14U);
  EXPECT_EQ(word, 14U);
  EXPECT_EQ(compare_swap(at, 14, 99), 14U);
  EXPECT_EQ(word, 99U);
}

TEST_F(Copy, refuses_atomics_on_odd_and_on_vanished_addresses) {
  const Pages pages(2);
  pages.protect(0, PROT_READ);
  pages.unmap(1);
  const auto at = [&](std::byte* p) { return place(p); };
  EXPECT_EQ(fetch_add(at(pages.data() + 4), 1).error(), Fault::kProtection);
  EXPECT_EQ(fetch_add(at(pages.data()), 1).error(), Fault::kProtection);
  EXPECT_EQ(fetch_add(at(pages.page(1)), 1).error(), Fault::kUnmapped);
  EXPECT_EQ(compare_swap(at(pages.data()), 0, 1).error(), Fault::kProtection);
  EXPECT_EQ(compare_swap(at(pages.page(1)), 0, 1).error(), Fault::kUnmapped);
}

}  // namespace
}  // namespace weft::memory

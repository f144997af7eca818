#include <array>
#include <bit>
#include <cstring>

#include "base/big_endian.h"
#include "wire/crc32.h"
#include "wire/crc32_polynomial.h"

namespace weft::wire {
namespace {

constexpr std::size_t kWord = 8;

/// kTables[k][b] is what byte b leaves when k zero bytes follow it.
constexpr auto kTables = [] {
  std::array<std::array<std::uint32_t, 256>, kWord> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (auto& table : tables) {
      for (int bit = 0; bit < 8; ++bit) rest = times_x(rest);
      table[byte] = rest;
    }
  }
  return tables;
}();

}  // namespace

// What a program may write meanwhile is of its own making, and not a race of ours.
#if defined(__SANITIZE_THREAD__)
[[gnu::no_sanitize("thread")]]
#endif
std::uint32_t
crc32_by_tables(std::uint32_t crc, std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  crc = ~crc;
  for (; left >= kWord; at += kWord, left -= kWord) {
    const std::uint64_t word = __builtin_bswap64(base::load_be<std::uint64_t>(at)) ^ crc;
    crc = 0;
    for (unsigned i = 0; i < kWord; ++i) crc ^= kTables[kWord - 1 - i][word >> (8 * i) & 0xFF];
  }
  for (; left > 0; ++at, --left) {
    crc = crc >> 8 ^ kTables[0][(crc ^ std::to_integer<std::uint32_t>(*at)) & 0xFF];
  }
  return ~crc;
}

}  // namespace weft::wire

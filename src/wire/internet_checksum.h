// The checksum of IP, TCP and UDP: the sum of 16-bit words without carries lost, complemented. The
// sum does not depend on the order of bytes in a word, so it is taken in the machine's own.
// Stateless.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "weft/types.h"

namespace weft::wire {

/// To be added up, and folded at the end. An odd last byte counts as if a zero followed.
inline std::uint64_t sum_of(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 4; at += 4, left -= 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, at, 4);
    sum += word;
  }
  std::uint32_t rest = 0;
  if (left != 0) std::memcpy(&rest, at, left);
  return sum + rest;
}

/// 0xFFFF: of bytes that hold their checksum, and were not changed.
inline std::uint16_t folded(std::uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

/// A number as it would stand in a header.
inline std::uint64_t sum_of_number(std::uint32_t number) {
  return std::endian::native == std::endian::little ? __builtin_bswap32(number) : number;
}

/// What TCP and UDP count beside their own bytes.
inline std::uint64_t sum_of_pseudo_header(const Gid& source, const Gid& destination,
                                          std::uint8_t protocol, std::size_t upper_bytes) {
  const std::size_t from = source.is_ipv4() ? 12 : 0;
  return sum_of(std::as_bytes(std::span(source.raw)).subspan(from)) +
         sum_of(std::as_bytes(std::span(destination.raw)).subspan(from)) + sum_of_number(protocol) +
         sum_of_number(static_cast<std::uint32_t>(upper_bytes));
}

/// Into a header.
inline void store_sum(std::byte* at, std::uint16_t sum) { std::memcpy(at, &sum, sizeof sum); }

}  // namespace weft::wire

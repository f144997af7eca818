// Arithmetic with the polynomials over GF(2) modulo CRC-32's. They are kept as the CRC itself is,
// lowest power in the highest bit. Stateless, any thread.
#pragma once

#include <cstdint>

namespace weft::wire {

/// CRC-32's own, without x^32.
inline constexpr std::uint32_t kCrc32Polynomial = 0xEDB8'8320;
inline constexpr std::uint32_t kCrc32One = 0x8000'0000;

constexpr std::uint32_t times_x(std::uint32_t a) {
  return (a & 1) != 0 ? a >> 1 ^ kCrc32Polynomial : a >> 1;
}
constexpr std::uint32_t divided_by_x(std::uint32_t a) {
  return (a & kCrc32One) != 0 ? (a ^ kCrc32Polynomial) << 1 | 1 : a << 1;
}
constexpr std::uint32_t power_of_x(unsigned exponent) {
  std::uint32_t power = kCrc32One;
  while (exponent-- > 0) power = times_x(power);
  return power;
}

}  // namespace weft::wire

#include "wire/icrc_identification.h"

#include <array>

#include "wire/crc32_polynomial.h"
#include "wire/ipv4.h"
#include "wire/udp.h"

namespace weft::wire {
namespace {

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (; a != 0; a <<= 1, b = times_x(b)) {
    if ((a & kCrc32One) != 0) product ^= b;
  }
  return product;
}

/// x to the power of -8 * 2^i: takes 2^i bytes off the end.
constexpr std::size_t kLengthBits = 16;
constexpr auto kShorter = [] {
  std::array<std::uint32_t, kLengthBits> out{};
  std::uint32_t power = kCrc32One;
  for (int i = 0; i < 8; ++i) power = divided_by_x(power);
  for (std::uint32_t& entry : out) {
    entry = power;
    power = multiply(power, power);
  }
  return out;
}();

constexpr std::size_t kIdentificationEnd = 6;
constexpr std::size_t kCrcBytes = 4;

}  // namespace

std::optional<std::uint16_t> recover_identification(std::uint32_t remainder,
                                                    std::size_t packet_bytes, std::uint16_t guess) {
  const std::size_t behind = Ipv4::kSize - kIdentificationEnd + Udp::kSize + packet_bytes;
  for (std::size_t i = 0, bytes = behind + kCrcBytes; bytes != 0; ++i, bytes >>= 1) {
    if (i == kLengthBits) return std::nullopt;  // longer than any packet
    if ((bytes & 1) != 0) remainder = multiply(remainder, kShorter[i]);
  }
  // What is left are the two bytes, first one lower, at the top.
  if ((remainder & 0xFFFF) != 0) return std::nullopt;
  const std::uint32_t difference = (remainder >> 16 & 0xFF) << 8 | remainder >> 24;
  return static_cast<std::uint16_t>(guess ^ difference);
}

}  // namespace weft::wire

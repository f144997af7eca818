#include "wire/identification.h"

#include <array>

#include "wire/ipv4.h"
#include "wire/udp.h"

namespace weft::wire {
namespace {

// Polynomials over one bit modulo CRC-32's, lowest power in the highest bit, as the CRC has them.
using Polynomial = std::uint32_t;
constexpr Polynomial kModulus = 0xEDB8'8320, kOne = 0x8000'0000;

constexpr Polynomial times_x(Polynomial p) { return (p & 1) != 0 ? p >> 1 ^ kModulus : p >> 1; }
constexpr Polynomial over_x(Polynomial p) {
  return (p & kOne) != 0 ? (p ^ kModulus) << 1 | 1 : p << 1;
}

constexpr Polynomial multiply(Polynomial a, Polynomial b) {
  Polynomial product = 0;
  for (; a != 0; a <<= 1, b = times_x(b)) {
    if ((a & kOne) != 0) product ^= b;
  }
  return product;
}

/// x to the power -8 * 2^i: takes back what 2^i bytes did to a CRC.
constexpr std::size_t kPowers = 16;  // as many bytes as a UDP length can tell
constexpr auto kTakenBack = [] {
  std::array<Polynomial, kPowers> powers{};
  Polynomial p = kOne;
  for (int bit = 0; bit < 8; ++bit) p = over_x(p);
  for (Polynomial& each : powers) {
    each = p;
    p = multiply(p, p);
  }
  return powers;
}();

/// From the identification's first byte to the BTH.
constexpr std::size_t kBytesBefore = Ipv4::kSize - 4 + Udp::kSize;

}  // namespace

std::optional<std::uint16_t> find_identification(std::uint32_t computed, std::uint32_t stored,
                                                 std::size_t packet_bytes) {
  Polynomial difference = computed ^ stored;
  const std::size_t bytes = kBytesBefore + packet_bytes;
  if (bytes >> kPowers != 0) return {};
  for (std::size_t i = 0; i < kPowers; ++i) {
    if ((bytes >> i & 1) != 0) difference = multiply(difference, kTakenBack[i]);
  }
  // What is left was put into an empty CRC: two bytes, the first one lowest.
  if (difference >> 16 != 0) return {};
  return static_cast<std::uint16_t>(difference << 8 | difference >> 8);
}

}  // namespace weft::wire

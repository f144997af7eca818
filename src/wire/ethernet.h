// Ethernet header without tags: as much as reading a capture takes.
//
//   bytes 0..5  destination    6..11  source    12..13  type (0x0800 IPv4, 0x86DD IPv6)
//
// A plain value, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tl/expected.hpp>

#include "base/assert.h"
#include "base/big_endian.h"
#include "wire/parse_error.h"

namespace weft::wire {

inline constexpr std::uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr std::uint16_t kEtherTypeIpv6 = 0x86DD;

struct Ethernet {
  static constexpr std::size_t kSize = 14;
  using Address = std::array<std::byte, 6>;

  Address destination{};
  Address source{};
  std::uint16_t type = 0;

  static tl::expected<Ethernet, ParseError> parse(std::span<const std::byte> in) {
    if (in.size() < kSize) return tl::unexpected(ParseError::kTruncated);
    Ethernet h;
    for (std::size_t i = 0; i < 6; ++i) h.destination[i] = in[i], h.source[i] = in[6 + i];
    h.type = base::load_be<std::uint16_t>(in.data() + 12);
    return h;
  }
  /// `out` has room for kSize bytes.
  void emit(std::span<std::byte> out) const {
    WEFT_ASSERT(out.size() >= kSize);
    for (std::size_t i = 0; i < 6; ++i) out[i] = destination[i], out[6 + i] = source[i];
    base::store_be<std::uint16_t>(out.data() + 12, type);
  }
  friend bool operator==(const Ethernet&, const Ethernet&) = default;
};

}  // namespace weft::wire

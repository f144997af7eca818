// IPv6 header, and with the same layout the 40-byte global route header (GRH) that begins every UD
// receive buffer.
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |version| traffic class |               flow label              |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |         payload length        |  next header  |   hop limit   |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |                    source address, 16 bytes                   |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |                 destination address, 16 bytes                 |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// Version is 6; anything else is refused. A plain value, any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tl/expected.hpp>

#include "base/assert.h"
#include "base/big_endian.h"
#include "weft/types.h"
#include "wire/ipv4.h"
#include "wire/parse_error.h"

namespace weft::wire {

struct Ipv6 {
  static constexpr std::size_t kSize = 40;

  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;  ///< 20 bits
  std::uint16_t payload_length = 0;
  std::uint8_t next_header = kIpProtocolUdp;
  std::uint8_t hop_limit = 64;
  Gid source;
  Gid destination;

  static tl::expected<Ipv6, ParseError> parse(std::span<const std::byte> in) {
    if (in.size() < kSize) return tl::unexpected(ParseError::kTruncated);
    const std::byte* p = in.data();
    const auto first = base::load_be<std::uint32_t>(p);
    if (first >> 28 != 6) return tl::unexpected(ParseError::kBadIpVersion);
    Ipv6 h;
    h.traffic_class = static_cast<std::uint8_t>(first >> 20);
    h.flow_label = first & 0xF'FFFF;
    h.payload_length = base::load_be<std::uint16_t>(p + 4);
    h.next_header = std::to_integer<std::uint8_t>(p[6]);
    h.hop_limit = std::to_integer<std::uint8_t>(p[7]);
    load_gid(p + 8, h.source);
    load_gid(p + 24, h.destination);
    return h;
  }

  void write(std::span<std::byte, kSize> out) const {
    std::byte* p = out.data();
    base::store_be<std::uint32_t>(
        p, 6u << 28 | std::uint32_t{traffic_class} << 20 | (flow_label & 0xF'FFFF));
    base::store_be<std::uint16_t>(p + 4, payload_length);
    p[6] = static_cast<std::byte>(next_header);
    p[7] = static_cast<std::byte>(hop_limit);
    store_gid(p + 8, source);
    store_gid(p + 24, destination);
  }
  /// `out` has room for kSize bytes.
  void emit(std::span<std::byte> out) const {
    WEFT_ASSERT(out.size() >= kSize);
    write(out.first<kSize>());
  }
  friend bool operator==(const Ipv6&, const Ipv6&) = default;

 private:
  static void load_gid(const std::byte* at, Gid& to) {
    for (std::size_t i = 0; i < to.raw.size(); ++i) {
      to.raw[i] = std::to_integer<std::uint8_t>(at[i]);
    }
  }
  static void store_gid(std::byte* at, const Gid& from) {
    for (std::size_t i = 0; i < from.raw.size(); ++i) at[i] = static_cast<std::byte>(from.raw[i]);
  }
};

/// The area in front of a received datagram.
using Grh = Ipv6;
inline constexpr std::size_t kGrhSize = Grh::kSize;
/// As it lies in a receive buffer.
using GrhBytes = std::array<std::byte, kGrhSize>;

/// An IPv4 datagram's GRH area: the header sits in the last 20 bytes, the rest is 0.
inline void emit_grh_area(const Ipv4& header, std::span<std::byte, kGrhSize> out) {
  constexpr std::size_t kUnused = kGrhSize - Ipv4::kSize;
  std::ranges::fill(out.first<kUnused>(), std::byte{0});
  header.write(out.last<Ipv4::kSize>());
}

}  // namespace weft::wire

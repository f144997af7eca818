// LRH, the local route header: how a frame finds its way inside a subnet. What follows it is a GRH
// (when the frame crosses subnets) or a BTH.
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |  VL   | version|  SL   |0 0|nxt|     destination LID (DLID)    |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |0 0 0 0 0|    length (4 bytes)  |       source LID (SLID)       |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// The length counts words of four bytes from the LRH's first byte to the ICRC's last. A frame of
// the fabric leaves the virtual lane here 0: the lane is the flit's (fabric/flit.h). A plain value,
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tl/expected.hpp>

#include "base/assert.h"
#include "base/big_endian.h"
#include "weft/types.h"
#include "wire/parse_error.h"

namespace weft::wire {

/// What follows the LRH.
enum class LinkNextHeader : std::uint8_t { kRaw = 0, kIpv6 = 1, kBth = 2, kGrh = 3 };

struct Lrh {
  static constexpr std::size_t kSize = 8;

  std::uint8_t virtual_lane = 0;   ///< 4 bits
  std::uint8_t service_level = 0;  ///< 4 bits
  LinkNextHeader next_header = LinkNextHeader::kGrh;
  Lid destination;
  std::uint16_t words = 0;  ///< 11 bits
  Lid source;

  static tl::expected<Lrh, ParseError> parse(std::span<const std::byte> in) {
    if (in.size() < kSize) return tl::unexpected(ParseError::kTruncated);
    const std::byte* p = in.data();
    const auto first = std::to_integer<std::uint8_t>(p[0]);
    if ((first & 0xF) != 0) return tl::unexpected(ParseError::kBadTransportVersion);
    const auto second = std::to_integer<std::uint8_t>(p[1]);
    Lrh header;
    header.virtual_lane = static_cast<std::uint8_t>(first >> 4);
    header.service_level = static_cast<std::uint8_t>(second >> 4);
    header.next_header = static_cast<LinkNextHeader>(second & 3);
    header.destination = Lid(base::load_be<std::uint16_t>(p + 2));
    header.words = base::load_be<std::uint16_t>(p + 4) & 0x7FF;
    header.source = Lid(base::load_be<std::uint16_t>(p + 6));
    return header;
  }

  /// `out` has room for kSize bytes.
  void emit(std::span<std::byte> out) const {
    WEFT_ASSERT(out.size() >= kSize);
    out[0] = static_cast<std::byte>(virtual_lane << 4);
    out[1] = static_cast<std::byte>(service_level << 4 | static_cast<unsigned>(next_header));
    base::store_be<std::uint16_t>(&out[2], destination.value);
    base::store_be<std::uint16_t>(&out[4], words & 0x7FF);
    base::store_be<std::uint16_t>(&out[6], source.value);
  }
  friend bool operator==(const Lrh&, const Lrh&) = default;
};

}  // namespace weft::wire

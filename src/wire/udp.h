// UDP header. RoCE v2 goes to port 4791, from a port that is constant per queue pair and path.
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |          source port          |        destination port       |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |             length            |            checksum           |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// The length counts this header too. The checksum is usually 0 (none): the ICRC protects the rest.
// A plain value, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tl/expected.hpp>

#include "base/assert.h"
#include "base/big_endian.h"
#include "wire/parse_error.h"

namespace weft::wire {

inline constexpr std::uint16_t kRoceUdpPort = 4791;

struct Udp {
  static constexpr std::size_t kSize = 8;

  std::uint16_t source_port = 0;
  std::uint16_t destination_port = kRoceUdpPort;
  std::uint16_t length = 0;
  std::uint16_t checksum = 0;

  /// Sets every field from exactly kSize bytes; the caller has checked the length.
  void read(std::span<const std::byte, kSize> in) {
    const std::byte* p = in.data();
    source_port = base::load_be<std::uint16_t>(p);
    destination_port = base::load_be<std::uint16_t>(p + 2);
    length = base::load_be<std::uint16_t>(p + 4);
    checksum = base::load_be<std::uint16_t>(p + 6);
  }
  static tl::expected<Udp, ParseError> parse(std::span<const std::byte> in) {
    if (in.size() < kSize) return tl::unexpected(ParseError::kTruncated);
    Udp header;
    header.read(in.first<kSize>());
    return header;
  }

  void write(std::span<std::byte, kSize> out) const {
    std::byte* p = out.data();
    base::store_be<std::uint16_t>(p, source_port);
    base::store_be<std::uint16_t>(p + 2, destination_port);
    base::store_be<std::uint16_t>(p + 4, length);
    base::store_be<std::uint16_t>(p + 6, checksum);
  }
  /// `out` has room for kSize bytes.
  void emit(std::span<std::byte> out) const {
    WEFT_ASSERT(out.size() >= kSize);
    write(out.first<kSize>());
  }
  friend bool operator==(const Udp&, const Udp&) = default;
};

}  // namespace weft::wire

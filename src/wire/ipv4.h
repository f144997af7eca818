// IPv4 header without options, as RoCE v2 uses it.
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |version| length|type of service|          total length         |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |         identification        |R|D|M|     fragment offset     |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |  time to live |    protocol   |        header checksum        |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |                         source address                        |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |                      destination address                      |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// Version is 4 and length is 5 words; anything else is refused. The checksum is kept as it came:
// compute_checksum() is for senders that build whole frames. A plain value, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tl/expected.hpp>

#include "base/assert.h"
#include "base/big_endian.h"
#include "weft/types.h"
#include "wire/parse_error.h"

namespace weft::wire {

inline constexpr std::uint8_t kIpProtocolUdp = 17;

struct Ipv4 {
  static constexpr std::size_t kSize = 20;
  using Address = std::array<std::uint8_t, 4>;

  std::uint8_t type_of_service = 0;
  std::uint16_t total_length = 0;
  std::uint16_t identification = 0;
  bool reserved_flag = false;
  bool dont_fragment = true;
  bool more_fragments = false;
  std::uint16_t fragment_offset = 0;  ///< 13 bits, in units of 8 bytes
  std::uint8_t time_to_live = 64;
  std::uint8_t protocol = kIpProtocolUdp;
  std::uint16_t checksum = 0;
  Address source{};
  Address destination{};

  bool is_fragment() const { return more_fragments || fragment_offset != 0; }

  static tl::expected<Ipv4, ParseError> parse(std::span<const std::byte> in) {
    if (in.size() < kSize) return tl::unexpected(ParseError::kTruncated);
    const std::byte* p = in.data();
    const auto first = std::to_integer<unsigned>(p[0]);
    if (first >> 4 != 4) return tl::unexpected(ParseError::kBadIpVersion);
    if ((first & 0x0F) != kSize / 4) return tl::unexpected(ParseError::kIpOptions);
    const auto fragment = base::load_be<std::uint16_t>(p + 6);
    Ipv4 h;
    h.type_of_service = std::to_integer<std::uint8_t>(p[1]);
    h.total_length = base::load_be<std::uint16_t>(p + 2);
    h.identification = base::load_be<std::uint16_t>(p + 4);
    h.reserved_flag = (fragment & 0x8000) != 0;
    h.dont_fragment = (fragment & 0x4000) != 0;
    h.more_fragments = (fragment & 0x2000) != 0;
    h.fragment_offset = fragment & 0x1FFF;
    h.time_to_live = std::to_integer<std::uint8_t>(p[8]);
    h.protocol = std::to_integer<std::uint8_t>(p[9]);
    h.checksum = base::load_be<std::uint16_t>(p + 10);
    load_address(p + 12, h.source);
    load_address(p + 16, h.destination);
    return h;
  }

  void write(std::span<std::byte, kSize> out) const {
    std::byte* p = out.data();
    p[0] = std::byte{0x45};
    p[1] = static_cast<std::byte>(type_of_service);
    base::store_be<std::uint16_t>(p + 2, total_length);
    base::store_be<std::uint16_t>(p + 4, identification);
    base::store_be<std::uint16_t>(
        p + 6,
        static_cast<std::uint16_t>((reserved_flag ? 0x8000 : 0) | (dont_fragment ? 0x4000 : 0) |
                                   (more_fragments ? 0x2000 : 0) | (fragment_offset & 0x1FFF)));
    p[8] = static_cast<std::byte>(time_to_live);
    p[9] = static_cast<std::byte>(protocol);
    base::store_be<std::uint16_t>(p + 10, checksum);
    store_address(p + 12, source);
    store_address(p + 16, destination);
  }
  /// `out` has room for kSize bytes.
  void emit(std::span<std::byte> out) const {
    WEFT_ASSERT(out.size() >= kSize);
    write(out.first<kSize>());
  }

  /// What the checksum field should hold, whatever it holds now.
  std::uint16_t compute_checksum() const {
    std::array<std::byte, kSize> bytes;
    write(bytes);
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < kSize; i += 2) {
      if (i != 10) sum += base::load_be<std::uint16_t>(bytes.data() + i);
    }
    sum = (sum & 0xFFFF) + (sum >> 16);
    sum = (sum & 0xFFFF) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
  }
  Gid source_gid() const { return to_gid(source); }
  Gid destination_gid() const { return to_gid(destination); }
  friend bool operator==(const Ipv4&, const Ipv4&) = default;

 private:
  static Gid to_gid(const Address& a) { return Gid::ipv4(a[0], a[1], a[2], a[3]); }
  static void load_address(const std::byte* at, Address& to) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::to_integer<std::uint8_t>(at[i]);
  }
  static void store_address(std::byte* at, const Address& from) {
    for (std::size_t i = 0; i < from.size(); ++i) at[i] = static_cast<std::byte>(from[i]);
  }
};

}  // namespace weft::wire

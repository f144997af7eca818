// Which packets a claim is for: values and masks of header fields, in the manner of
// ibv_create_flow. What is not masked matches anything. Plain values; any thread.
#pragma once

#include <array>
#include <cstdint>

#include "weft/raw.h"
#include "weft/types.h"
#include "wire/raw_packet.h"

namespace weft::network {

/// A field that must have these bits.
template <class T>
struct Masked {
  T value{};
  T mask{};

  bool matches(T field) const { return ((field ^ value) & mask) == 0; }
  bool any() const { return mask == T{}; }
  friend bool operator==(const Masked&, const Masked&) = default;
};

/// The same for addresses.
template <std::size_t kBytes>
struct MaskedBytes {
  std::array<std::uint8_t, kBytes> value{};
  std::array<std::uint8_t, kBytes> mask{};

  template <class Bytes>
  bool matches(const Bytes& field) const {
    unsigned differs = 0;
    for (std::size_t i = 0; i < kBytes; ++i) {
      differs |= (static_cast<std::uint8_t>(field[i]) ^ value[i]) & mask[i];
    }
    return differs == 0;
  }
  bool any() const { return mask == std::array<std::uint8_t, kBytes>{}; }
  void set_all(const std::array<std::uint8_t, kBytes>& to) {
    value = to;
    mask.fill(0xFF);
  }
  friend bool operator==(const MaskedBytes&, const MaskedBytes&) = default;
};

template <std::size_t kBytes>
constexpr std::array<std::uint8_t, kBytes> all_ones() {
  std::array<std::uint8_t, kBytes> mask;
  mask.fill(0xFF);
  return mask;
}

struct RawMatch {
  MaskedBytes<6> link_destination, link_source;
  Masked<std::uint16_t> type, vlan_tag;
  std::uint8_t version = 0;  ///< 0: any, or none
  Masked<std::uint8_t> protocol, traffic_class, hop_limit;
  Masked<std::uint32_t> flow_label;
  MaskedBytes<16> source, destination;
  Masked<std::uint16_t> source_port, destination_port;
  bool link_group_only = false;  ///< frames to an Ethernet group

  bool matches(const wire::RawPacket& packet) const;
  /// How many bits it looks at: of several claims the one that looks closest counts.
  unsigned bits() const;
  /// It is for this destination and no other.
  bool names(const Gid& address) const;
  /// A group of hosts, each of which gets a copy.
  bool is_for_group() const;
  friend bool operator==(const RawMatch&, const RawMatch&) = default;
};

RawMatch match_of(const RawKey& key);

}  // namespace weft::network

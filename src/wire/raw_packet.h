// Packets of any protocol, as a raw queue pair sends and receives them: what their Ethernet and IP
// headers say, as far as it can be read, and what is wrong with them. The chain of extension
// headers is followed for a bounded way. Read from hostile bytes; stateless, any thread.
//
//   frame   | Ethernet 14 | 802.1Q tag 4? | packet ...                                 |
//   packet  | IPv6 40     | extension headers 0..8    | upper layer: ports ... payload |
//           | IPv4 20..60                             | upper layer: ports ... payload |
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "weft/types.h"
#include "wire/ethernet.h"

namespace weft::wire {

inline constexpr std::uint16_t kEtherTypeVlan = 0x8100;
inline constexpr std::uint8_t kHopByHopOptions = 0, kIpProtocolTcp = 6, kRoutingHeader = 43,
                              kFragmentHeader = 44, kAuthenticationHeader = 51, kIcmpv6 = 58,
                              kNoNextHeader = 59, kDestinationOptions = 60;
/// More of them than this are refused: no stack needs as many.
inline constexpr unsigned kMostExtensionHeaders = 8;

enum class RawFault : std::uint8_t {
  kNone,
  kTruncated,          ///< fewer bytes than a header or a length field asks for
  kBadVersion,         ///< neither IPv6 nor IPv4, or not the one that the frame's type says
  kBadLength,          ///< a length field too small for what must follow
  kBadExtension,       ///< an extension header that ends outside the packet, or is out of place
  kTooManyExtensions,  ///< more than kMostExtensionHeaders
  kJumbo,              ///< a jumbo payload: longer than a length field can say
  kBadSource,          ///< a source address that no host has: a group's
};
std::string_view to_string(RawFault fault);

/// What could be read; the rest is 0. With a fault only what stands before it is certain.
struct RawPacket {
  // Of a frame.
  Ethernet::Address link_destination{}, link_source{};
  std::uint16_t type = 0;      ///< EtherType, behind a tag
  std::uint16_t vlan_tag = 0;  ///< 0: none
  std::size_t network_at = 0;  ///< where the packet begins
  // Of a packet.
  std::uint8_t version = 0;  ///< 6, 4, or 0: no IP
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t protocol = kNoNextHeader;  ///< behind all extension headers
  std::uint32_t flow_label = 0;
  Gid source, destination;
  bool is_fragment = false;
  std::size_t bytes = 0;     ///< of the packet, as its header says; an Ethernet frame may be longer
  std::size_t upper_at = 0;  ///< from the packet's begin; 0: a later fragment, or out of reach
  bool has_ports = false;
  std::uint16_t source_port = 0, destination_port = 0;

  RawFault fault = RawFault::kNone;
};

RawPacket parse_raw_frame(std::span<const std::byte> frame);
RawPacket parse_raw_packet(std::span<const std::byte> packet);

/// Writes the checksum of a TCP or UDP packet whose sender left it to a network card. Fragments and
/// other protocols stay as they are. `packet` begins with its IP header.
void fill_upper_checksum(std::span<std::byte> packet, const RawPacket& headers);

}  // namespace weft::wire

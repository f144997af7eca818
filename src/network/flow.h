// The network layer's view of a frame: who sends to whom, with which quality, and the IP and UDP
// headers that follow from it. Values; stateless functions; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/types.h"
#include "wire/icrc.h"
#include "wire/ipv6.h"
#include "wire/udp.h"

namespace weft::network {

/// The low bits of a traffic class: a router that runs full may mark such a packet instead of
/// dropping one (ECN), and kMarked says that one did.
inline constexpr std::uint8_t kMarkable = 2, kMarked = 3, kMarkBits = 3;

struct Flow {
  Gid source;
  Gid destination;
  std::uint16_t source_port = 0xC000;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;

  bool is_ipv4() const { return destination.is_ipv4(); }
  bool is_markable() const { return (traffic_class & kMarkBits) != 0; }
  bool is_marked() const { return (traffic_class & kMarkBits) == kMarked; }
};

/// Constant per queue pair and path, in 0xC000 to 0xFFFF, so that switches keep its frames in order
/// while different queue pairs spread over links.
std::uint16_t source_port_for(Qpn local, Qpn remote);

/// IP and UDP header in front of `transport_bytes` (BTH to ICRC). Returns their size: 28 or 48.
inline constexpr std::size_t kMaxNetworkHeaderBytes = wire::Ipv6::kSize + wire::Udp::kSize;
std::size_t emit_headers(const Flow& flow, std::size_t transport_bytes, std::span<std::byte> out);

/// The ICRC's start over the headers that emit_headers() would write, or over those that a UDP
/// socket's kernel writes (identification 0, don't fragment).
wire::Icrc start_icrc(const Flow& flow, std::size_t transport_bytes);
/// The same for many packets, whose lengths and identifications differ.
wire::IcrcPrefix icrc_prefix(const Flow& flow);

/// The 40 bytes in front of a received datagram: an IPv6 header, or an IPv4 one in the last 20.
wire::GrhBytes make_grh(const Flow& flow, std::size_t transport_bytes);
/// The same for an unreliable datagram of so many bytes that no frame carries.
wire::GrhBytes make_datagram_grh(const Flow& flow, std::size_t bytes, bool has_immediate);

}  // namespace weft::network

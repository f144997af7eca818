// RoCE v2: the IP and UDP headers that follow from a flow, and what the ICRC takes from them.
// Stateless functions; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "network/flow.h"
#include "wire/icrc.h"
#include "wire/ipv6.h"
#include "wire/udp.h"

namespace weft::network {

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
wire::GrhBytes make_grh(const GlobalRoute& route, std::size_t transport_bytes);
/// The same for an unreliable datagram of so many bytes that no frame carries.
wire::GrhBytes make_datagram_grh(const GlobalRoute& route, std::size_t bytes, bool has_immediate);

}  // namespace weft::network

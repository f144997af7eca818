// A whole RoCE v2 datagram, from its IP header to its ICRC: taken apart, its lengths checked
// against each other, and its ICRC confirmed. For ports that see IP headers (captures, taps, raw
// sockets); what comes from a UDP socket goes to Icrc and parse_packet directly. The parts point
// into the caller's buffer and live as long. Stateless, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tl/expected.hpp>

#include "wire/icrc.h"
#include "wire/parse_error.h"
#include "wire/udp.h"

namespace weft::wire {

struct Datagram {
  std::span<const std::byte> ip_header;  ///< 20 bytes (IPv4) or 40 (IPv6)
  std::span<const std::byte, Udp::kSize> udp_header;
  std::span<const std::byte> packet;  ///< BTH to pad: what parse_packet takes
  std::span<const std::byte, kIcrcSize> icrc;

  bool is_ipv4() const { return ip_header.size() == Ipv4::kSize; }
};

/// Finds the parts without looking at the ICRC. Bytes beyond the IP length are ignored: Ethernet
/// pads short frames. Refuses whatever is not one whole UDP datagram for the RoCE port.
tl::expected<Datagram, ParseError> split_datagram(std::span<const std::byte> from_ip_header);

/// The ICRC that these parts ought to carry.
Icrc compute_icrc(const Datagram& datagram);

/// Splits and confirms the ICRC.
tl::expected<Datagram, ParseError> check_datagram(std::span<const std::byte> from_ip_header);

}  // namespace weft::wire

// IPv6 packets made byte by byte, for tests of raw datagrams: with any chain of extension headers,
// any lengths, right or wrong. Stateless.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/big_endian.h"
#include "wire/ipv6.h"
#include "wire/raw_packet.h"

namespace weft::test {

using Bytes = std::vector<std::byte>;

/// What is no address is ::.
inline Gid gid(const char* text) {
  Gid out;
  if (inet_pton(AF_INET6, text, out.raw.data()) == 1) return out;
  out = Gid::ipv4(0, 0, 0, 0);
  return inet_pton(AF_INET, text, &out.raw[12]) == 1 ? out : Gid{};
}

inline Bytes bytes_of(std::initializer_list<unsigned> values) {
  Bytes out;
  for (const unsigned value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

struct PacketParts {
  Gid source = gid("fd00::1"), destination = gid("fd00::2");
  std::uint8_t next_header = wire::kIpProtocolUdp;  ///< what the IPv6 header says
  Bytes extensions = {};                            ///< as they lie behind it
  Bytes upper = {};
};

inline Bytes ipv6_packet(const PacketParts& parts) {
  Bytes out(wire::Ipv6::kSize);
  wire::Ipv6 header;
  header.payload_length = static_cast<std::uint16_t>(parts.extensions.size() + parts.upper.size());
  header.next_header = parts.next_header;
  header.source = parts.source;
  header.destination = parts.destination;
  header.emit(out);
  out.insert(out.end(), parts.extensions.begin(), parts.extensions.end());
  out.insert(out.end(), parts.upper.begin(), parts.upper.end());
  return out;
}

/// A UDP header and payload, with its checksum left at 0.
inline Bytes udp(std::uint16_t from, std::uint16_t to, std::size_t payload = 16) {
  Bytes out(8 + payload, std::byte{0x61});
  base::store_be<std::uint16_t>(out.data(), from);
  base::store_be<std::uint16_t>(out.data() + 2, to);
  base::store_be<std::uint16_t>(out.data() + 4, static_cast<std::uint16_t>(out.size()));
  base::store_be<std::uint16_t>(out.data() + 6, 0);
  return out;
}

inline Bytes udp_packet(const Gid& source, const Gid& destination, std::size_t payload = 16) {
  return ipv6_packet({.source = source, .destination = destination, .upper = udp(7, 9, payload)});
}

inline Bytes frame_of(const Bytes& packet, std::uint16_t type = wire::kEtherTypeIpv6) {
  Bytes out(wire::Ethernet::kSize);
  wire::Ethernet header;
  header.destination.fill(std::byte{0x0A});
  header.source.fill(std::byte{0x0C});
  header.type = type;
  header.emit(out);
  out.insert(out.end(), packet.begin(), packet.end());
  return out;
}

}  // namespace weft::test

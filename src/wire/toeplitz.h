// The Toeplitz hash, by which network cards spread packets over receive queues: for each bit of the
// input that is set, 32 bits of the key, from that bit's place on, are added without carry.
// Stateless, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/raw_packet.h"

namespace weft::wire {

/// For the longest input, of two IPv6 addresses and two ports.
using ToeplitzKey = std::array<std::uint8_t, 40>;

/// Which of a packet's fields are hashed.
struct HashedFields {
  bool ipv4_source = false, ipv4_destination = false;
  bool ipv6_source = false, ipv6_destination = false;
  bool tcp_source = false, tcp_destination = false;
  bool udp_source = false, udp_destination = false;
};

/// `input` is at most 36 bytes long.
constexpr std::uint32_t toeplitz(std::span<const std::uint8_t> input, const ToeplitzKey& key) {
  std::uint32_t window = std::uint32_t{key[0]} << 24 | std::uint32_t{key[1]} << 16 |
                         std::uint32_t{key[2]} << 8 | key[3];
  std::uint32_t hash = 0;
  for (std::size_t i = 0; i < input.size(); ++i) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      if ((input[i] >> (7 - bit) & 1) != 0) hash ^= window;
      window = window << 1 | (key[i + 4] >> (7 - bit) & 1u);
    }
  }
  return hash;
}

/// 0 for a packet that has none of the fields.
inline std::uint32_t hash_of(const RawPacket& packet, const HashedFields& fields,
                             const ToeplitzKey& key) {
  std::array<std::uint8_t, 36> input;
  std::size_t size = 0;
  const auto add = [&](bool wanted, const std::uint8_t* from, std::size_t bytes) {
    for (std::size_t i = 0; wanted && i < bytes; ++i) input[size++] = from[i];
  };
  if (packet.version == 4) {
    add(fields.ipv4_source, packet.source.raw.data() + 12, 4);
    add(fields.ipv4_destination, packet.destination.raw.data() + 12, 4);
  } else if (packet.version == 6) {
    add(fields.ipv6_source, packet.source.raw.data(), 16);
    add(fields.ipv6_destination, packet.destination.raw.data(), 16);
  }
  if (packet.has_ports) {
    const bool tcp = packet.protocol == kIpProtocolTcp;
    const auto port = [&](bool wanted, std::uint16_t number) {
      const std::array bytes{static_cast<std::uint8_t>(number >> 8),
                             static_cast<std::uint8_t>(number)};
      add(wanted, bytes.data(), bytes.size());
    };
    port(tcp ? fields.tcp_source : fields.udp_source, packet.source_port);
    port(tcp ? fields.tcp_destination : fields.udp_destination, packet.destination_port);
  }
  return toeplitz({input.data(), size}, key);
}

}  // namespace weft::wire

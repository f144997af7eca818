// A message as it travels between processes: with the addresses of the devices of both ends, which
// on a network the headers below it tell. Everything that arrives is hostile. Stateless.
//
//   0: "wcm1" or, forwarded from the network, "wcmn" | 4: source address | 20: destination
//   address | 36: the message's 256 bytes
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "cm/message.h"
#include "weft/types.h"

namespace weft::cm {

struct Packet {
  Gid source, destination;
  Message message;
  /// It came from another host; another process, whose port received it, hands it over.
  bool from_network = false;
  friend bool operator==(const Packet&, const Packet&) = default;
};

inline constexpr std::size_t kPacketBytes = 36 + kMessageBytes;

std::optional<Packet> parse_packet(std::span<const std::byte> bytes);
std::array<std::byte, kPacketBytes> emit_packet(const Packet& packet);

}  // namespace weft::cm

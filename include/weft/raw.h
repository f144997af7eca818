// Raw datagrams: a queue pair of this service sends and receives whole packets of other protocols,
// and claims the ones that it wants. Plain values; docs/how-to/raw-packets.md shows their use.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "weft/types.h"

namespace weft {

/// What one message of a raw queue pair is.
enum class RawFraming : std::uint8_t {
  kPacket,    ///< an IPv6 packet, or an IPv4 one, from its first byte on
  kEthernet,  ///< an Ethernet frame, from its destination address on, without its check sequence
};

/// What becomes of packets that arrive at a port and that nobody claimed.
enum class RawUnclaimed : std::uint8_t {
  kKernel,  ///< the kernel's own stack sees them, as without weft
  kDrop,    ///< they are counted and dropped; the kernel's stack sees nothing of the interface
};

using LinkAddress = std::array<std::uint8_t, 6>;

/// Which of the packets that arrive are for a queue pair. What is not given matches anything.
struct RawKey {
  /// The protocol after all extension headers: 17 is UDP, 6 TCP, 58 ICMPv6.
  std::optional<std::uint8_t> next_header = {};
  std::optional<Gid> destination = {};
  /// The Ethernet destination, for those who have an address of their own there.
  std::optional<LinkAddress> link_destination = {};

  friend bool operator==(const RawKey&, const RawKey&) = default;
};

}  // namespace weft

// What the machine knows about one of its own addresses: the interface that has it, and the largest
// frame that fits there. Asked when a port opens, and when it is silent; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "weft/types.h"

namespace weft::port {

struct LocalInterface {
  std::uint32_t index = 0;
  bool loopback = false;
  std::size_t link_bytes = 0;  ///< the largest IP packet
  bool up = true;              ///< and its cable is plugged in
};

/// Nothing when no interface lists exactly this address: 127.0.0.2 is reachable, but not listed.
std::optional<LocalInterface> find_interface(const Gid& address);

/// True for 127.0.0.0/8 and ::1, which never leave the machine.
bool is_loopback(const Gid& address);

/// The largest path MTU whose frames fit into IP packets of this size, whatever headers they have.
Mtu largest_mtu(std::size_t link_bytes, bool ipv4);

/// For a port on this address: what its interface can carry, and a careful value if that is
/// unknown.
Mtu mtu_of_address(const Gid& address, const std::optional<LocalInterface>& interface);

}  // namespace weft::port

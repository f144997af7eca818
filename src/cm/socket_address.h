// One end's IP address and port. A plain value, any thread.
#pragma once

#include <cstdint>

#include "cm/service_id.h"
#include "weft/types.h"

namespace weft::cm {

enum class Family : std::uint8_t { kNone, kIpv4, kIpv6 };

struct SocketAddress {
  Family family = Family::kNone;
  Gid address;  ///< IPv4 in its mapped form
  Port port;
  std::uint32_t flow_info = 0, scope = 0;  ///< of IPv6, as given; carried, never read

  static constexpr Gid kAnyIpv4 = Gid::ipv4(0, 0, 0, 0);

  bool any() const { return address == Gid{} || address == kAnyIpv4; }
  bool multicast() const {
    return address.is_ipv4() ? (address.raw[12] & 0xF0) == 0xE0 : address.raw[0] == 0xFF;
  }
  /// The same family and port, all addresses.
  SocketAddress with_any() const {
    SocketAddress other = *this;
    other.address = family == Family::kIpv4 ? kAnyIpv4 : Gid{};
    return other;
  }
};

}  // namespace weft::cm

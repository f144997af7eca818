// How IP programs use the communication manager: the service number made of port space and port,
// and the header that tells both ends' IP addresses at the start of a request's private data
// (annex "RDMA IP CM service"). Stateless, any thread.
//
//   0: version (4 bits each, 0.0) | 1: IP version << 4 | 2: source port | 4: source | 20:
//   destination
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "cm/message.h"
#include "weft/types.h"

namespace weft::cm {

/// A UDP or TCP port number in a port space.
using Port = Strong<struct PortTag, std::uint16_t>;
/// 0x0106 for TCP, 0x0111 for UDP, 0x0002 for IPoIB, 0x013F for InfiniBand.
using PortSpace = Strong<struct PortSpaceTag, std::uint16_t>;

inline constexpr PortSpace kTcpSpace{0x0106}, kUdpSpace{0x0111}, kIpoibSpace{0x0002},
    kIbSpace{0x013F};

constexpr ServiceId service_id(PortSpace space, Port port) {
  return ServiceId(std::uint64_t{space.value} << 16 | port.value);
}
constexpr PortSpace space_of(ServiceId service) {
  return PortSpace(static_cast<std::uint16_t>(service.value >> 16));
}
constexpr Port port_of(ServiceId service) {
  return Port(static_cast<std::uint16_t>(service.value));
}

struct IpHeader {
  bool ipv6 = false;
  Port source_port;
  Gid source, destination;  ///< IPv4 in its mapped form
  friend bool operator==(const IpHeader&, const IpHeader&) = default;
};

inline constexpr std::size_t kIpHeaderBytes = 36;

/// Of private data that begins with the header; nothing when its versions are unknown.
std::optional<IpHeader> parse_ip_header(std::span<const std::byte> private_data);
void emit_ip_header(const IpHeader& header, std::span<std::byte> private_data);

}  // namespace weft::cm

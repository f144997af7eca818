// From what a UDP socket delivers to a frame that a port hands up. The kernel has taken the IP and
// UDP headers off, so they are made again from the addresses to check the ICRC; an IPv4
// identification is taken for 0, as weft and others without fragments send it. A pure function of
// hostile bytes: no state, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tl/expected.hpp>

#include "port/port.h"
#include "port/udp_socket.h"
#include "weft/types.h"

namespace weft::port {

/// One datagram as the kernel tells of it.
struct Arrival {
  SocketAddress from;
  std::span<const std::byte> bytes;  ///< after the UDP header
  bool truncated = false;            ///< it was longer than any frame
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
};

enum class Drop : std::uint8_t {
  kMalformed,
  kBadChecksum,
  kProbe,  ///< of a process that joins the address: nothing to count
};

/// The frame that came to `local`; its packet points into the arrival's bytes.
tl::expected<Incoming, Drop> to_incoming(const Arrival& arrival, const Gid& local);

}  // namespace weft::port

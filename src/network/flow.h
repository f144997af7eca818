// A frame's way through the network. Values; any thread.
//
// A flow is a global route, which a GRH or in its place an IP header tells, and what the link below
// needs to know. There is one kind of link, RoCE v2 (roce.h), which needs a UDP source port. One
// with LIDs would have its local route (SLID, DLID, service level) beside that as an alternative:
// only who makes a flow, and the port that turns it into headers, look at the link's part.
#pragma once

#include <cstdint>

#include "weft/types.h"

namespace weft::network {

/// The low bits of a traffic class: a router that runs full may mark such a packet instead of
/// dropping one (ECN), and kMarked says that one did.
inline constexpr std::uint8_t kMarkable = 2, kMarked = 3, kMarkBits = 3;

struct GlobalRoute {
  Gid source;
  Gid destination;
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;

  bool is_ipv4() const { return destination.is_ipv4(); }
  bool is_markable() const { return (traffic_class & kMarkBits) != 0; }
  bool is_marked() const { return (traffic_class & kMarkBits) == kMarked; }
};

struct Flow : GlobalRoute {
  std::uint16_t source_port = 0xC000;
};

}  // namespace weft::network

// What a fabric is made of, for the core: nodes with ports, and links with their latencies, rates
// and buffers. Flat arrays, filled once. Made from a topology (fabric/build.h) or by hand in tests;
// read by the link layer and the network layer, which do not see each other's state. A value.
#pragma once

#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "fabric/frame.h"

namespace weft::fabric {

enum class NodeKind : std::uint8_t { kEndpoint, kSwitch, kRouter };

struct LinkProfile {
  std::uint32_t latency = 1;         ///< ticks from the last bit's sending to its arrival
  std::uint16_t ticks_per_flit = 1;  ///< the reciprocal of the rate
  std::uint16_t depth = 16;          ///< flits that each lane's input buffer holds
  double error_rate = 0;             ///< chance that a flit comes damaged
};

struct PortShape {
  NodeIndex node = kNone;
  PortIndex peer = kNone;
  LinkProfile link;  ///< of the direction that leaves here
};

struct NodeShape {
  NodeKind kind = NodeKind::kEndpoint;
  PortIndex first = 0;
  std::uint32_t ports = 0;
  std::uint32_t pipeline = 0;  ///< ticks between a flit's arrival and its earliest departure
};

struct Shape {
  std::vector<NodeShape> nodes;
  std::vector<PortShape> ports;

  NodeIndex add(NodeKind kind, std::uint32_t port_count, std::uint32_t pipeline = 0) {
    nodes.push_back({kind, static_cast<PortIndex>(ports.size()), port_count, pipeline});
    const auto node = static_cast<NodeIndex>(nodes.size() - 1);
    ports.resize(ports.size() + port_count, PortShape{node, kNone, {}});
    return node;
  }
  /// Ports are numbered from 1, as on their housings.
  PortIndex port(NodeIndex node, std::uint32_t number) const {
    WEFT_ASSERT(number >= 1 && number <= nodes[node].ports);
    return nodes[node].first + number - 1;
  }
  std::uint32_t number_of(PortIndex port) const { return port - nodes[ports[port].node].first + 1; }
  NodeKind kind_of(PortIndex port) const { return nodes[ports[port].node].kind; }
  void connect(PortIndex a, PortIndex b, const LinkProfile& link = {}) {
    WEFT_ASSERT(a != b && ports[a].peer == kNone && ports[b].peer == kNone);
    ports[a].peer = b;
    ports[b].peer = a;
    ports[a].link = ports[b].link = link;
  }
};

}  // namespace weft::fabric

#include "fabric/topology.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"

namespace weft::fabric {

std::uint32_t Topology::add(NodeKind kind, std::string name, std::uint32_t ports) {
  WEFT_ASSERT(ports <= kMostPorts);
  const auto index = static_cast<std::uint32_t>(nodes.size());
  const bool fresh = by_name_.emplace(name, index).second;
  WEFT_ASSERT(fresh);
  TopologyNode node;
  node.kind = kind;
  node.name = std::move(name);
  node.ports.resize(ports);
  nodes.push_back(std::move(node));
  return index;
}

void Topology::connect(std::uint32_t a, std::uint32_t a_port, std::uint32_t b,
                       std::uint32_t b_port) {
  TopologyPort& here = nodes[a].port(a_port);
  TopologyPort& there = nodes[b].port(b_port);
  WEFT_ASSERT(here.node == kNone && there.node == kNone && (a != b || a_port != b_port));
  here.node = b, here.port = b_port;
  there.node = a, there.port = a_port;
}

std::optional<std::uint32_t> Topology::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return std::nullopt;
  return found->second;
}

std::size_t Topology::count(NodeKind kind) const {
  return static_cast<std::size_t>(std::ranges::count(nodes, kind, &TopologyNode::kind));
}

Subnets find_subnets(const Topology& topology) {
  Subnets subnets;
  for (const TopologyNode& node : topology.nodes) {
    subnets.of_port.emplace_back(node.ports.size(), kNone);
  }
  std::vector<std::pair<std::uint32_t, std::uint32_t>> open;
  const auto enter = [&](std::uint32_t node, std::uint32_t port) {
    std::uint32_t& at = subnets.of_port[node][port - 1];
    if (at != kNone || topology.nodes[node].port(port).node == kNone) return;
    at = subnets.count;
    open.emplace_back(node, port);
  };
  for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
    for (std::uint32_t port = 1; port <= topology.nodes[node].ports.size(); ++port) {
      enter(node, port);
      if (open.empty()) continue;
      while (!open.empty()) {
        const auto [at, number] = open.back();
        open.pop_back();
        const TopologyPort& cable = topology.nodes[at].port(number);
        enter(cable.node, cable.port);
        if (topology.nodes[at].kind != NodeKind::kSwitch) continue;
        for (std::uint32_t other = 1; other <= topology.nodes[at].ports.size(); ++other) {
          enter(at, other);
        }
      }
      ++subnets.count;
    }
  }
  return subnets;
}

std::vector<std::string> complaints_about(const Topology& topology) {
  std::vector<std::string> complaints;
  std::unordered_map<std::uint64_t, std::string> guids;
  const auto see = [&](std::uint64_t guid, const std::string& whose) {
    if (guid == 0) return;
    const auto [other, fresh] = guids.emplace(guid, whose);
    if (!fresh) {
      complaints.push_back(
          fmt::format("GUID 0x{:016x} is that of {} and of {}", guid, other->second, whose));
    }
  };
  std::vector<bool> reached(topology.nodes.size());
  std::size_t parts = 0;
  for (std::uint32_t start = 0; start < topology.nodes.size(); ++start) {
    const TopologyNode& node = topology.nodes[start];
    see(node.guid, '"' + node.name + '"');
    for (std::uint32_t port = 1; port <= node.ports.size(); ++port) {
      // A port may have its node's GUID.
      if (node.port(port).guid != node.guid) {
        see(node.port(port).guid, fmt::format("\"{}\"[{}]", node.name, port));
      }
    }
    if (std::ranges::all_of(node.ports, [](const auto& port) { return port.node == kNone; })) {
      complaints.push_back(fmt::format("\"{}\" has no cable", node.name));
      continue;
    }
    if (reached[start]) continue;
    ++parts;
    if (parts > 1) {
      complaints.push_back(
          fmt::format("\"{}\" and what it is connected to cannot be reached from \"{}\"", node.name,
                      topology.nodes[0].name));
    }
    std::vector<std::uint32_t> open{start};
    reached[start] = true;
    while (!open.empty()) {
      const std::uint32_t at = open.back();
      open.pop_back();
      for (const TopologyPort& port : topology.nodes[at].ports) {
        if (port.node == kNone || reached[port.node]) continue;
        reached[port.node] = true;
        open.push_back(port.node);
      }
    }
  }
  return complaints;
}

}  // namespace weft::fabric

#include "fabric/lanes_plan.h"

#include <set>

namespace weft::fabric {

bool recognise_ring(Topology& topology) {
  std::vector<std::set<std::uint32_t>> next(topology.nodes.size());
  std::uint32_t first = kNone;
  std::size_t switches = 0;
  for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
    if (topology.nodes[node].kind != NodeKind::kSwitch) continue;
    if (first == kNone) first = node;
    ++switches;
    for (const TopologyPort& port : topology.nodes[node].ports) {
      if (port.node != kNone && topology.nodes[port.node].kind == NodeKind::kSwitch) {
        next[node].insert(port.node);
      }
    }
    if (next[node].size() != 2) return false;
  }
  if (switches < 3) return false;
  std::vector<std::uint32_t> order{first};
  for (std::uint32_t before = kNone, at = first; order.size() <= switches;) {
    const auto& both = next[at];
    const std::uint32_t to = *both.begin() != before ? *both.begin() : *both.rbegin();
    if (to == first) break;
    before = at;
    order.push_back(at = to);
  }
  if (order.size() != switches) return false;
  topology.dimensions = {static_cast<std::uint32_t>(switches)};
  topology.wraps = true;
  topology.coordinates.assign(topology.nodes.size(), {});
  for (std::uint32_t i = 0; i < order.size(); ++i) topology.coordinates[order[i]] = {i};
  return true;
}

}  // namespace weft::fabric

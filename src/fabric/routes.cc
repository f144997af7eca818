// Of Installation: the tables of a subnet, and the cycle test on them.
#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "base/assert.h"
#include "fabric/installation.h"

namespace weft::fabric {
namespace {

constexpr std::uint32_t kFar = kNone;

/// Distances of switches from a set of them.
std::vector<std::uint32_t> distances(const Topology& topology,
                                     const std::vector<std::uint32_t>& from) {
  std::vector<std::uint32_t> distance(topology.nodes.size(), kFar);
  std::deque<std::uint32_t> open(from.begin(), from.end());
  for (const std::uint32_t node : from) distance[node] = 0;
  while (!open.empty()) {
    const std::uint32_t at = open.front();
    open.pop_front();
    for (const TopologyPort& port : topology.nodes[at].ports) {
      if (port.node == kNone || topology.nodes[port.node].kind != NodeKind::kSwitch) continue;
      if (distance[port.node] != kFar) continue;
      distance[port.node] = distance[at] + 1;
      open.push_back(port.node);
    }
  }
  return distance;
}

}  // namespace

Result<bool> Installation::route_subnet(std::uint32_t subnet, Routing routing) {
  std::vector<std::uint32_t> switches;
  for (std::uint32_t node = 0; node < topology_.nodes.size(); ++node) {
    if (topology_.nodes[node].kind != NodeKind::kSwitch) continue;
    if (std::ranges::count(subnets_.of_port[node], subnet) > 0) switches.push_back(node);
  }
  if (switches.empty()) return true;  // two ports and a cable
  if (routing == Routing::kDimension) {
    route_by_dimension();
    return true;
  }
  // Roots are the switches farthest from hosts, as a fat tree has them; or else the most central.
  if (!route_up_down(switches, true) && !route_up_down(switches, false)) {
    return fail(Errc::kInvalidArgument, fmt::format("subnet {} has no routes", subnet));
  }
  return true;
}

bool Installation::route_up_down(const std::vector<std::uint32_t>& switches, bool by_hosts) {
  struct Link {
    std::uint32_t there;  // an index of switches
    PortIndex out;
  };
  std::vector<std::uint32_t> index_of(topology_.nodes.size(), kNone);
  for (std::uint32_t i = 0; i < switches.size(); ++i) index_of[switches[i]] = i;
  std::vector<std::uint32_t> leaves;
  for (const std::uint32_t node : switches) {
    for (const TopologyPort& port : topology_.nodes[node].ports) {
      if (port.node == kNone || topology_.nodes[port.node].kind == NodeKind::kSwitch) continue;
      leaves.push_back(node);
      break;
    }
  }
  std::vector<std::uint32_t> rank(switches.size());
  if (by_hosts) {
    const auto height = distances(topology_, leaves);
    for (std::uint32_t i = 0; i < switches.size(); ++i) rank[i] = kFar - 1 - height[switches[i]];
  } else {
    // Of a few, the one whose farthest switch is nearest.
    std::uint32_t best = kFar;
    std::vector<std::uint32_t> depth;
    const std::size_t stride = std::max<std::size_t>(1, switches.size() / 16);
    for (std::size_t i = 0; i < switches.size(); i += stride) {
      auto from = distances(topology_, {switches[i]});
      std::uint32_t farthest = 0;
      for (const std::uint32_t node : switches) farthest = std::max(farthest, from[node]);
      if (farthest < best) best = farthest, depth = std::move(from);
    }
    for (std::uint32_t i = 0; i < switches.size(); ++i) rank[i] = depth[switches[i]];
  }
  // `above` in a total order, so that going up comes to an end.
  const auto above = [&rank](std::uint32_t a, std::uint32_t b) {
    return rank[a] != rank[b] ? rank[a] < rank[b] : a < b;
  };
  std::vector<std::uint32_t> order(switches.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, above);
  std::vector<std::vector<Link>> up(switches.size()), down(switches.size());
  for (std::uint32_t i = 0; i < switches.size(); ++i) {
    const TopologyNode& node = topology_.nodes[switches[i]];
    for (std::uint32_t number = 1; number <= node.ports.size(); ++number) {
      const std::uint32_t there = node.port(number).node;
      if (there == kNone || index_of[there] == kNone || index_of[there] == i) continue;
      auto& links = above(index_of[there], i) ? up[i] : down[i];
      links.push_back({index_of[there], shape_.port(switches[i], number)});
    }
  }
  Forwarding& forwarding = fabric_->forwarding();
  const std::uint32_t lowest = *std::ranges::max_element(rank);
  // The number of each leaf among the leaves.
  std::vector<std::uint32_t> home_of_leaf(switches.size());
  for (std::uint32_t i = 0, next = 0; i < switches.size(); ++i) {
    home_of_leaf[i] = next;
    if (std::ranges::binary_search(leaves, switches[i])) ++next;
  }
  std::vector<PortIndex> equal;
  std::vector<std::uint32_t> falls(switches.size()), all(switches.size());
  std::vector<std::uint32_t> open;
  for (std::uint32_t home = 0; home < switches.size(); ++home) {
    // Downward ways to it, found upward from it; then those that go up first, from the top on.
    std::ranges::fill(falls, kFar);
    falls[home] = 0;
    open.assign(1, home);
    for (std::size_t i = 0; i < open.size(); ++i) {
      for (const Link& link : up[open[i]]) {
        if (falls[link.there] != kFar) continue;
        falls[link.there] = falls[open[i]] + 1;
        open.push_back(link.there);
      }
    }
    for (const std::uint32_t at : order) {
      all[at] = falls[at];
      if (falls[at] != kFar) continue;
      for (const Link& link : up[at]) {
        if (all[link.there] != kFar) all[at] = std::min(all[at], all[link.there] + 1);
      }
      // A switch without hosts may be out of reach of others that are as high.
      if (all[at] == kFar && std::ranges::binary_search(leaves, switches[home])) return false;
    }
    const TopologyNode& node = topology_.nodes[switches[home]];
    // Of equal ways each destination takes its own: by its place at its switch on the lowest level,
    // and by the place of that switch above, as fat trees want it.
    const auto spread = [&](Lid lid, std::uint32_t place) {
      for (std::uint32_t at = 0; at < switches.size(); ++at) {
        if (at == home) continue;
        const bool falling = falls[at] != kFar;
        equal.clear();
        for (const Link& link : falling ? down[at] : up[at]) {
          const std::uint32_t left = falling ? falls[link.there] : all[link.there];
          if (left != kFar && left + 1 == all[at]) equal.push_back(link.out);
        }
        if (equal.empty()) continue;
        std::size_t which = place;
        if (by_hosts && rank[at] != lowest) which = home_of_leaf[home];
        forwarding.set_route(switches[at], lid, equal[which % equal.size()]);
      }
    };
    std::uint32_t place = 0;
    spread(lids_[switches[home]][0], place);
    for (std::uint32_t number = 1; number <= node.ports.size(); ++number) {
      const TopologyPort& port = node.port(number);
      if (port.node == kNone || index_of[port.node] != kNone) continue;
      const TopologyPort& end = topology_.nodes[port.node].port(port.port);
      for (std::uint32_t i = 0; i < 1u << end.lmc; ++i) {
        const Lid lid(static_cast<std::uint16_t>(end.lid.value + i));
        forwarding.set_route(switches[home], lid, shape_.port(switches[home], number));
        spread(lid, place + i);
      }
      ++place;
    }
  }
  return true;
}

void Installation::route_by_dimension() {
  // The cables of each switch by dimension and direction.
  const std::size_t ways = topology_.dimensions.size() * 2;
  std::vector<std::vector<PortIndex>> out(topology_.nodes.size());
  for (std::uint32_t node = 0; node < topology_.nodes.size(); ++node) {
    if (topology_.nodes[node].kind != NodeKind::kSwitch) continue;
    out[node].assign(ways, kNone);
    for (std::uint32_t number = 1; number <= topology_.nodes[node].ports.size(); ++number) {
      const std::uint32_t there = topology_.nodes[node].port(number).node;
      if (there == kNone || topology_.nodes[there].kind != NodeKind::kSwitch) continue;
      for (std::uint32_t d = 0; d < topology_.dimensions.size(); ++d) {
        const int way = plan_.direction(node, there, d);
        if (way == 0) continue;
        PortIndex& port = out[node][2 * d + (way > 0 ? 0 : 1)];
        if (port == kNone) port = shape_.port(node, number);
      }
    }
  }
  for (const Endpoint& end : endpoints_) {
    for (std::uint32_t node = 0; node < topology_.nodes.size(); ++node) {
      if (topology_.nodes[node].kind != NodeKind::kSwitch) continue;
      PortIndex port = shape_.ports[end.port].peer;
      for (std::uint32_t d = 0; d < topology_.dimensions.size() && node != end.home; ++d) {
        const int way = plan_.direction(node, end.home, d);
        if (way == 0) continue;
        port = out[node][2 * d + (way > 0 ? 0 : 1)];
        break;
      }
      for (std::uint32_t i = 0; i < 1u << topology_.nodes[end.node].port(end.number).lmc; ++i) {
        fabric_->forwarding().set_route(node, Lid(static_cast<std::uint16_t>(end.lid.value + i)),
                                        port);
      }
    }
  }
}

std::string Installation::unreachable() const {
  for (const Endpoint& to : endpoints_) {
    for (std::uint32_t node = 0; node < topology_.nodes.size(); ++node) {
      if (topology_.nodes[node].kind != NodeKind::kSwitch) continue;
      if (std::ranges::count(subnets_.of_port[node], to.subnet) == 0) continue;
      std::uint32_t at = node;
      for (std::size_t hops = 0; at != to.node; ++hops) {
        const PortIndex out = next_out(at, to.lid);
        if (out == kNone || shape_.ports[out].peer == kNone || hops > topology_.nodes.size()) {
          return fmt::format("from \"{}\" to LID {} of {}: {}", topology_.nodes[node].name,
                             to.lid.value, name_of(to.port),
                             hops > topology_.nodes.size() ? "the routes go round in a circle"
                                                           : "there is no route");
        }
        at = shape_.ports[shape_.ports[out].peer].node;
        if (topology_.nodes[at].kind != NodeKind::kSwitch && at != to.node) {
          return fmt::format("from \"{}\" to LID {} the routes end at \"{}\"",
                             topology_.nodes[node].name, to.lid.value, topology_.nodes[at].name);
        }
      }
    }
  }
  return {};
}

std::vector<Channel> Installation::find_cycle() const {
  // Edges from (port, lane) to the ports of the next switch, as bits: a lane is kept on the way.
  constexpr std::uint32_t kWords = 4;  // 256 ports
  const std::size_t channels = shape_.ports.size() * plan_.lanes();
  std::vector<std::uint64_t> edges(channels * kWords);
  const auto channel = [this](PortIndex port, std::uint32_t lane) {
    return std::size_t{port} * plan_.lanes() + lane;
  };
  const auto walk = [&](std::uint32_t node, Lid lid, std::uint32_t end, std::uint32_t lane) {
    PortIndex before = kNone;
    for (std::size_t hops = 0; node != end && hops <= topology_.nodes.size(); ++hops) {
      const PortIndex out = next_out(node, lid);
      if (out == kNone || shape_.ports[out].peer == kNone) return;
      if (before != kNone) {
        const std::uint32_t number = out - shape_.nodes[node].first;
        edges[channel(before, lane) * kWords + number / 64] |= std::uint64_t{1} << number % 64;
      }
      if (plan_.lanes() == 1 && before != kNone) return;  // others go on from here
      before = out;
      node = shape_.ports[shape_.ports[out].peer].node;
      if (topology_.nodes[node].kind != NodeKind::kSwitch) return;
    }
  };
  for (const Endpoint& to : endpoints_) {
    for (std::uint32_t node = 0; node < topology_.nodes.size(); ++node) {
      if (topology_.nodes[node].kind != NodeKind::kSwitch) continue;
      walk(node, to.lid, to.node, lane_for(node, to.home));
    }
  }
  // Depth first; grey ones are on the path.
  enum : std::uint8_t { kWhite, kGrey, kBlack };
  std::vector<std::uint8_t> colour(channels, kWhite);
  std::vector<std::pair<std::size_t, std::uint32_t>> path;
  for (std::size_t start = 0; start < channels; ++start) {
    if (colour[start] != kWhite) continue;
    path.assign(1, {start, 0});
    colour[start] = kGrey;
    while (!path.empty()) {
      auto& [at, bit] = path.back();
      const auto port = static_cast<PortIndex>(at / plan_.lanes());
      const auto lane = static_cast<std::uint32_t>(at % plan_.lanes());
      while (bit < 64 * kWords && (edges[at * kWords + bit / 64] >> bit % 64 & 1) == 0) ++bit;
      if (bit == 64 * kWords) {
        colour[at] = kBlack;
        path.pop_back();
        continue;
      }
      const NodeIndex next_node = shape_.ports[shape_.ports[port].peer].node;
      const std::size_t next = channel(shape_.nodes[next_node].first + bit++, lane);
      if (colour[next] == kWhite) {
        colour[next] = kGrey;
        path.emplace_back(next, 0);
      } else if (colour[next] == kGrey) {
        std::vector<Channel> cycle;
        auto from = std::ranges::find(path, next, [](const auto& step) { return step.first; });
        for (; from != path.end(); ++from) {
          cycle.push_back({static_cast<PortIndex>(from->first / plan_.lanes()),
                           static_cast<std::uint8_t>(from->first % plan_.lanes())});
        }
        return cycle;
      }
    }
  }
  return {};
}

}  // namespace weft::fabric

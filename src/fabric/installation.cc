#include "fabric/installation.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"

namespace weft::fabric {
namespace {

/// Our own managers may use all unicast LIDs.
constexpr std::uint32_t kMostLids = 0xBFFF;

Gid address_in(std::uint32_t subnet, std::uint64_t interface) {
  Gid gid;
  gid.raw[0] = 0xFD;
  const std::uint32_t number = subnet + 1;
  for (std::size_t i = 0; i < 4; ++i)
    gid.raw[4 + i] = static_cast<std::uint8_t>(number >> (24 - 8 * i));
  for (std::size_t i = 0; i < 8; ++i)
    gid.raw[8 + i] = static_cast<std::uint8_t>(interface >> (56 - 8 * i));
  return gid;
}

Shape shape_of(const Topology& topology, const Settings& settings) {
  Shape shape;
  for (const TopologyNode& node : topology.nodes) {
    const bool endpoint = node.kind == NodeKind::kEndpoint;
    shape.add(node.kind, static_cast<std::uint32_t>(node.ports.size()),
              endpoint ? 0 : settings.pipeline);
  }
  for (const auto& [node, pipeline] : settings.pipelines) shape.nodes[node].pipeline = pipeline;
  for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
    for (std::uint32_t number = 1; number <= topology.nodes[node].ports.size(); ++number) {
      const TopologyPort& port = topology.nodes[node].port(number);
      if (port.node == kNone) continue;
      const PortIndex here = shape.port(node, number), there = shape.port(port.node, port.port);
      if (here < there) shape.connect(here, there, settings.link);
    }
  }
  for (const auto& [place, profile] : settings.cables) {
    const PortIndex here = shape.port(place.first, place.second);
    shape.ports[here].link = shape.ports[shape.ports[here].peer].link = profile;
  }
  return shape;
}

}  // namespace

Result<std::unique_ptr<Installation>> Installation::create(Topology topology,
                                                           const Settings& settings,
                                                           const Options& options) {
  std::unique_ptr<Installation> made(new Installation);
  made->topology_ = std::move(topology);
  made->shape_ = shape_of(made->topology_, settings);
  made->subnets_ = find_subnets(made->topology_);
  made->tick_ns_ = settings.tick_ns;
  made->lanes_ = settings.links.lanes;
  if (options.routing == Routing::kDimension) {
    if (made->topology_.dimensions.empty() && !recognise_ring(made->topology_)) {
      return fail(Errc::kInvalidArgument, "dimension order needs a ring, a mesh or a torus");
    }
    if (made->subnets_.count > 1) {
      return fail(Errc::kInvalidArgument, "dimension order needs one subnet");
    }
    made->plan_ = LanesPlan(made->topology_);
  }
  made->fabric_ = std::make_unique<Fabric>(made->shape_, settings.links);
  if (auto given = made->give_lids(options.lmc); !given) return tl::unexpected(given.error());
  for (std::uint32_t subnet = 0; subnet < made->subnets_.count; ++subnet) {
    if (auto routed = made->route_subnet(subnet, options.routing); !routed) {
      return tl::unexpected(routed.error());
    }
  }
  made->route_between_subnets();
  return made;
}

Result<bool> Installation::give_lids(std::uint8_t lmc) {
  std::vector<std::uint32_t> next(subnets_.count, 1);
  lids_.resize(topology_.nodes.size());
  for (std::uint32_t node = 0; node < topology_.nodes.size(); ++node) {
    TopologyNode& what = topology_.nodes[node];
    lids_[node].resize(what.ports.size());
    const bool is_switch = what.kind == NodeKind::kSwitch;
    for (std::uint32_t number = 1; number <= what.ports.size(); ++number) {
      const std::uint32_t subnet = subnets_.of_port[node][number - 1];
      if (subnet == kNone || (is_switch && lids_[node][0].value != 0)) continue;
      const std::uint32_t mask = is_switch ? 0 : (1u << lmc) - 1;
      const std::uint32_t lid = (next[subnet] + mask) & ~mask;
      if (lid + mask > kMostLids) {
        return fail(Errc::kInvalidArgument,
                    fmt::format("subnet {} has more ports than the {} LIDs of a subnet", subnet,
                                kMostLids));
      }
      next[subnet] = lid + mask + 1;
      if (is_switch) {
        lids_[node][0] = what.lid = Lid(static_cast<std::uint16_t>(lid));
        continue;
      }
      TopologyPort& port = what.port(number);
      lids_[node][number - 1] = port.lid = Lid(static_cast<std::uint16_t>(lid));
      port.lmc = lmc;
      const PortIndex index = shape_.port(node, number);
      fabric_->forwarding().set_lids(index, port.lid, lmc);
      if (what.kind != NodeKind::kEndpoint) continue;
      const Gid address = address_in(subnet, port.guid != 0 ? port.guid : index + 1);
      fabric_->forwarding().set_address(address, port.lid);
      endpoints_.push_back({index, node, number, subnet, port.lid, address, port.node});
    }
  }
  return true;
}

PortIndex Installation::next_out(std::uint32_t node, Lid lid) const {
  return fabric_->forwarding().route_of(shape_.nodes[node].first, lid);
}

std::uint8_t Installation::lane_for(std::uint32_t from_home, std::uint32_t to_home) const {
  if (plan_.lanes() == 1 || topology_.nodes[from_home].kind != NodeKind::kSwitch) return 0;
  if (topology_.nodes[to_home].kind != NodeKind::kSwitch) return 0;
  const std::uint8_t lane = plan_.lane(from_home, to_home);
  return lane < lanes_ ? lane : 0;
}

Sending Installation::sending(std::uint32_t from, std::uint32_t to, std::uint16_t flits) const {
  const Endpoint& source = endpoints_[from];
  const Endpoint& destination = endpoints_[to];
  Sending what;
  what.from = source.port;
  what.flits = flits;
  if (source.subnet == destination.subnet) {
    what.destination = destination.lid;
    what.lane = lane_for(source.home, destination.home);
  } else {
    what.destination = router_to_[source.subnet][destination.subnet];
    what.address = destination.address;
  }
  return what;
}

/// One tree over the subnets, so that routers close no cycle that the subnets do not have.
void Installation::route_between_subnets() {
  router_to_.assign(subnets_.count, std::vector<Lid>(subnets_.count));
  if (subnets_.count < 2) return;
  struct Step {
    std::uint32_t subnet;
    PortIndex in, out;  // of the router: from the subnet before, into this one
    std::uint32_t before;
  };
  for (std::uint32_t start = 0; start < subnets_.count; ++start) {
    // Prefixes are learnt from their own subnet outward.
    std::vector<bool> seen(subnets_.count);
    std::vector<Step> open{{start, kNone, kNone, kNone}};
    seen[start] = true;
    const std::uint64_t prefix = prefix_of(address_in(start, 0));
    for (std::size_t i = 0; i < open.size(); ++i) {
      const Step at = open[i];
      for (std::uint32_t node = 0; node < topology_.nodes.size(); ++node) {
        if (topology_.nodes[node].kind != NodeKind::kRouter) continue;
        const auto& ports = subnets_.of_port[node];
        const auto here = std::ranges::find(ports, at.subnet);
        if (here == ports.end()) continue;
        const auto towards = static_cast<std::uint32_t>(here - ports.begin()) + 1;
        bool routed = false;
        for (std::uint32_t number = 1; number <= ports.size(); ++number) {
          const std::uint32_t other = ports[number - 1];
          if (other == kNone || seen[other]) continue;
          seen[other] = true;
          router_to_[other][start] = lids_[node][number - 1];
          open.push_back({other, shape_.port(node, number), shape_.port(node, towards), at.subnet});
          if (routed) continue;
          routed = true;
          fabric_->forwarding().set_prefix_route(node, prefix, shape_.port(node, towards),
                                                 router_to_[at.subnet][start]);
        }
      }
    }
  }
}

std::string Installation::name_of(PortIndex port) const {
  return fmt::format("\"{}\"[{}]", topology_.nodes[shape_.ports[port].node].name,
                     shape_.number_of(port));
}

std::string Installation::describe(const std::vector<Channel>& cycle) const {
  std::string text;
  for (const Channel& channel : cycle) {
    text += fmt::format("  {} -> {} lane {} waits for\n", name_of(channel.from),
                        name_of(shape_.ports[channel.from].peer), channel.lane);
  }
  return text.empty() ? text : text + "  the first again\n";
}

std::string Installation::describe(const std::vector<Blocked>& cycle) const {
  std::string text;
  for (const Blocked& blocked : cycle) {
    const Frame& frame = fabric_->frame(blocked.frame);
    text += fmt::format("  input {} lane {} holds a frame from {} to LID {} and waits for\n",
                        name_of(blocked.port), blocked.lane, name_of(frame.from),
                        frame.destination.value);
  }
  return text.empty() ? text : text + "  the first again\n";
}

}  // namespace weft::fabric

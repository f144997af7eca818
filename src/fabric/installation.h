// A topology that is ready to run: LIDs, addresses and subnets are given out, tables are filled,
// and the Fabric stands on it. This is what a manager does later; here it is computed at once.
// Owned by its driver; one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/lanes_plan.h"
#include "fabric/settings.h"
#include "fabric/topology.h"
#include "weft/result.h"

namespace weft::fabric {

enum class Routing : std::uint8_t {
  kUpDown,     ///< up towards the roots, then down: no cycle on one lane, in any topology
  kDimension,  ///< one dimension after the other, with lanes where a ring closes
};

/// A port of a host or adapter: who can send and receive.
struct Endpoint {
  PortIndex port;
  std::uint32_t node, number;  ///< in the topology
  std::uint32_t subnet;
  Lid lid;
  Gid address;
  std::uint32_t home;  ///< the node at the other end of its cable
};

/// A link and a lane of it that wait for the next one in the cycle.
struct Channel {
  PortIndex from;
  std::uint8_t lane;
};

class Installation {
 public:
  struct Options {
    Routing routing = Routing::kUpDown;
    std::uint8_t lmc = 0;
  };

  /// Refuses what cannot work: a subnet that is not connected or has more nodes than LIDs.
  static Result<std::unique_ptr<Installation>> create(Topology topology, const Settings& settings,
                                                      const Options& options);

  const Topology& topology() const { return topology_; }
  const std::vector<Endpoint>& endpoints() const { return endpoints_; }
  std::uint32_t subnets() const { return subnets_.count; }
  Fabric& fabric() { return *fabric_; }
  double tick_ns() const { return tick_ns_; }

  /// What is to be sent from one endpoint to another, on its lane and by a router if needed.
  Sending sending(std::uint32_t from, std::uint32_t to, std::uint16_t flits) const;
  /// Lanes that the plan wants; the fabric may have fewer, and then uses the first for the rest.
  std::uint32_t lanes_wanted() const { return plan_.lanes(); }

  /// The cycle test on (link, lane), over all pairs of endpoints. Empty: nothing can lock up.
  std::vector<Channel> find_cycle() const;
  /// Endpoints whose frames do not arrive by the tables, as text; empty: all do.
  std::string unreachable() const;
  /// "S0"[2], as files have it.
  std::string name_of(PortIndex port) const;
  std::string describe(const std::vector<Channel>& cycle) const;
  std::string describe(const std::vector<Blocked>& cycle) const;

 private:
  Installation() = default;

  Result<bool> give_lids(std::uint8_t lmc);
  Result<bool> route_subnet(std::uint32_t subnet, Routing routing);
  bool route_up_down(const std::vector<std::uint32_t>& switches, bool by_hosts);
  void route_by_dimension();
  void route_between_subnets();
  std::uint8_t lane_for(std::uint32_t from_home, std::uint32_t to_home) const;
  /// The next output port of a frame for this LID that is in the switch.
  PortIndex next_out(std::uint32_t node, Lid lid) const;

  Topology topology_;
  Shape shape_;
  Subnets subnets_;
  double tick_ns_ = 1;
  std::uint8_t lanes_ = 1;
  LanesPlan plan_;
  std::vector<Endpoint> endpoints_;
  std::vector<std::vector<Lid>> lids_;  ///< by node and port; a switch's first
  /// By subnet and other subnet: the LID of the router's port on the way; 0: none.
  std::vector<std::vector<Lid>> router_to_;
  std::unique_ptr<Fabric> fabric_;
};

}  // namespace weft::fabric

// The network layer: which way a frame goes. It sees frames and ports, and no flits, lanes' credits
// or links. A switch goes by the destination LID, with one table or one for each input port; a
// router by the IPv6 prefix of the destination, and it changes the network header and nothing else.
// Tables are set by whoever manages the fabric. Owned by the Fabric; one thread.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "fabric/shape.h"

namespace weft::fabric {

enum class Drop : std::uint8_t {
  kNoRoute,    ///< no entry for the destination, or one that names no link
  kTurnsBack,  ///< the table sends it out where it came in
  kHopLimit,   ///< it has crossed too many switches: a loop in the tables
  kNotMine,    ///< it came to an endpoint that has no such LID
  kNoGlobal,   ///< it came to a router without a global header
  kCount
};
const char* to_string(Drop drop);

struct Hop {
  PortIndex out = kNone;  ///< kNone: drop it, and why is below
  std::uint8_t lane = 0;
  Drop drop = Drop::kNoRoute;
};

class Forwarding {
 public:
  explicit Forwarding(const Shape& shape);

  /// An endpoint's or router's port answers to 2^lmc LIDs from this one on.
  void set_lids(PortIndex port, Lid base, std::uint8_t lmc);
  Lid lid_of(PortIndex port) const { return lids_[port].base; }
  std::uint8_t lmc_of(PortIndex port) const { return lids_[port].lmc; }
  bool answers_to(PortIndex port, Lid lid) const;

  /// The switch sends what is for this LID out of that port.
  void set_route(NodeIndex node, Lid destination, PortIndex out);
  /// Only what comes in here; the node then has a table for each input port.
  void set_route_from(PortIndex in, Lid destination, PortIndex out);
  PortIndex route_of(PortIndex in, Lid destination) const;

  /// Frames of this service level that cross the node this way change to that lane.
  void set_lane(PortIndex in, PortIndex out, std::uint8_t service_level, std::uint8_t lane);

  /// The router sends what is for this prefix to the next router's LID, out of that port; LID 0:
  /// the destination is in the subnet of that port.
  void set_prefix_route(NodeIndex router, std::uint64_t prefix, PortIndex out, Lid next = Lid(0));
  /// Where an address is in its own subnet.
  void set_address(const Gid& address, Lid lid) { by_address_[address] = lid; }
  Lid lid_of(const Gid& address) const;

  /// The next hop of a frame that has come in here; counts its hop. A router's port changes the
  /// frame's LIDs, and its headers if it has bytes.
  Hop next_hop(PortIndex in, Frame& frame);

  std::size_t bytes() const;

 private:
  struct Lids {
    Lid base{0};
    std::uint8_t lmc = 0;
  };
  struct Table {
    std::vector<std::uint8_t> ports;  ///< by LID, then by input port if there are several
    std::uint32_t stride = 0;         ///< 0: one table for all input ports
  };
  struct PrefixRoute {
    std::uint64_t prefix;
    PortIndex out;
    Lid next;
  };
  using LaneMap = std::array<std::uint8_t, 16>;

  void grow(Table& table, const NodeShape& node, std::uint32_t lid);
  Hop cross_switch(PortIndex in, const Frame& frame) const;
  Hop cross_router(PortIndex in, Frame& frame) const;
  std::uint64_t way(PortIndex in, PortIndex out) const { return std::uint64_t{in} << 32 | out; }

  const Shape& shape_;
  std::vector<Lids> lids_;
  std::vector<Table> tables_;
  std::unordered_map<NodeIndex, std::vector<PrefixRoute>> prefixes_;
  std::unordered_map<Gid, Lid> by_address_;
  std::unordered_map<std::uint64_t, LaneMap> lanes_;
};

/// The first 64 bits of an address.
std::uint64_t prefix_of(const Gid& address);

}  // namespace weft::fabric

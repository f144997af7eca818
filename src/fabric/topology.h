// A topology as people write it and tools print it: named nodes with ports, cables between them,
// and what is known of GUIDs, LIDs and rates. Read from files (topology_reader.h), made by
// generators (generators.h), written for other tools (topology_writer.h). A value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "fabric/shape.h"
#include "weft/types.h"

namespace weft::fabric {

struct TopologyPort {
  std::uint32_t node = kNone;  ///< at the other end; kNone: no cable
  std::uint32_t port = 0;      ///< its number there
  std::uint64_t guid = 0;      ///< 0: not given
  Lid lid;                     ///< 0: not given
  std::uint8_t lmc = 0;
  std::uint8_t width = 4;     ///< lanes of the cable
  std::string speed = "QDR";  ///< of each, as ibnetdiscover says it
};

struct TopologyNode {
  NodeKind kind = NodeKind::kEndpoint;
  std::string name;  ///< unique: "S-0002c90300001dd0", "Switch1"
  std::string description;
  std::uint64_t guid = 0;
  Lid lid;  ///< a switch's own
  std::uint8_t lmc = 0;
  std::uint32_t vendor = 0, device = 0;
  std::vector<TopologyPort> ports;  ///< number 1 is the first

  const TopologyPort& port(std::uint32_t number) const { return ports[number - 1]; }
  TopologyPort& port(std::uint32_t number) { return ports[number - 1]; }
};

inline constexpr std::uint32_t kMostPorts = 254;

struct Topology {
  std::vector<TopologyNode> nodes;
  /// Where each switch is in a ring, mesh or torus, and how long each dimension is; else empty.
  std::vector<std::uint32_t> dimensions;
  bool wraps = false;
  std::vector<std::vector<std::uint32_t>> coordinates;  ///< by node

  /// A node of so many ports; its number.
  std::uint32_t add(NodeKind kind, std::string name, std::uint32_t ports);
  void connect(std::uint32_t a, std::uint32_t a_port, std::uint32_t b, std::uint32_t b_port);
  std::optional<std::uint32_t> find(const std::string& name) const;
  std::size_t count(NodeKind kind) const;

 private:
  std::unordered_map<std::string, std::uint32_t> by_name_;
};

/// Something wrong in a topology that can be read nonetheless: a GUID twice, parts without a
/// connection, a node without a cable.
std::vector<std::string> complaints_about(const Topology& topology);

/// Which subnet each port belongs to, counted from 0: what is connected without crossing a router.
/// The first index is the node, the second the port's number less 1. kNone: no cable.
struct Subnets {
  std::vector<std::vector<std::uint32_t>> of_port;
  std::uint32_t count = 0;
};
Subnets find_subnets(const Topology& topology);

}  // namespace weft::fabric

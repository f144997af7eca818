// Regular topologies: ring, mesh, torus, fat tree, dragonfly. Names, GUIDs and, for those with
// dimensions, coordinates are set. Stateless; any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "fabric/topology.h"
#include "weft/result.h"

namespace weft::fabric {

/// Switches in a circle, so many hosts at each.
Result<Topology> make_ring(std::uint32_t switches, std::uint32_t hosts);
Result<Topology> make_mesh(const std::vector<std::uint32_t>& dimensions, std::uint32_t hosts);
Result<Topology> make_torus(const std::vector<std::uint32_t>& dimensions, std::uint32_t hosts);
/// Three levels of switches with k ports each, k even: k^3 / 4 hosts at full bisection. `pods`:
/// only so many of the k pods; 0: all.
Result<Topology> make_fat_tree(std::uint32_t k, std::uint32_t pods = 0);
/// Groups of a switches, all connected with each other inside; each switch has p hosts and h cables
/// to other groups; a * h + 1 groups, each connected with each other.
Result<Topology> make_dragonfly(std::uint32_t a, std::uint32_t p, std::uint32_t h);

/// "ring 6 1", "mesh 4x4 1", "torus 8x8 1", "fat-tree 8", "dragonfly 4 2 2": as the command takes
/// it.
Result<Topology> generate(std::string_view words);

}  // namespace weft::fabric

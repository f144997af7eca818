// Pictures as SVG text: a topology, with load by colour after a run, and the curves of a study.
// Stateless; any thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fabric/study.h"
#include "fabric/topology.h"

namespace weft::fabric {

/// The share of its time that a link was busy in the direction that leaves this port, 0 to 1.
using LoadOf = std::function<double(std::uint32_t node, std::uint32_t port)>;

/// Rings as circles, grids as grids, others in levels. Without loads the cables are grey.
std::string draw_topology(const Topology& topology, const LoadOf& load_of = {});

struct CurvePoint {
  double offered, accepted, mean_latency, p99_latency;
};
std::string draw_curves(const std::vector<CurvePoint>& points, const std::string& title);

}  // namespace weft::fabric

// Which lane a path takes in rings and tori, so that no cycle closes: a bit for each dimension, set
// when the path crosses the link where that dimension's ring closes. The lane is chosen at the
// source and kept. Paths with the bit cover less than the ring, and those without it never close
// it. A value.
#pragma once

#include <cstdint>

#include "fabric/topology.h"

namespace weft::fabric {

class LanesPlan {
 public:
  LanesPlan() = default;
  explicit LanesPlan(const Topology& topology) : topology_(&topology) {}

  std::uint32_t lanes() const {
    return topology_ == nullptr || !topology_->wraps ? 1 : 1u << topology_->dimensions.size();
  }
  std::uint8_t lane(std::uint32_t from, std::uint32_t to) const {
    if (lanes() == 1) return 0;
    unsigned lane = 0;
    for (std::uint32_t d = 0; d < topology_->dimensions.size(); ++d) {
      if (crosses(from, to, d)) lane |= 1u << d;
    }
    return static_cast<std::uint8_t>(lane);
  }
  /// 1: up, -1: down, 0: it is there already. Of two equal ways round it is up.
  int direction(std::uint32_t from, std::uint32_t to, std::uint32_t d) const {
    const std::uint32_t length = topology_->dimensions[d];
    const std::uint32_t a = topology_->coordinates[from][d], b = topology_->coordinates[to][d];
    if (a == b) return 0;
    if (!topology_->wraps) return a < b ? 1 : -1;
    return (b + length - a) % length * 2 <= length ? 1 : -1;
  }

 private:
  bool crosses(std::uint32_t from, std::uint32_t to, std::uint32_t d) const {
    const int way = direction(from, to, d);
    const std::uint32_t a = topology_->coordinates[from][d], b = topology_->coordinates[to][d];
    return (way > 0 && b < a) || (way < 0 && b > a);
  }

  const Topology* topology_ = nullptr;
};

/// Sets the places of switches that form one ring, as a file does not say them. False: they do not.
bool recognise_ring(Topology& topology);

}  // namespace weft::fabric

// A whole world on paper: nodes, cards, ports, links, faults and catastrophes, all drawn from one
// number. Plain values; drawing is the only thing that knows the odds.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/faults.h"
#include "worlds/datagrams.h"
#include "worlds/link_spec.h"
#include "worlds/node.h"
#include "worlds/reliable_datagrams.h"

namespace weft::worlds {

struct Scenario {
  std::uint64_t seed = 0;
  sim::Checksums checksums = sim::Checksums::kAlways;
  sim::Faults faults;
  Nanoseconds least_delay_ns = 500, most_delay_ns = 5'000;
  std::vector<NodeSpec> nodes;
  std::vector<LinkSpec> links;
  DatagramSpec datagrams;
  ReliableDatagramSpec reliable_datagrams;
  Nanoseconds healed_at = 0;
  std::uint32_t crashes = 0, partitions = 0, slowdowns = 0;
  Nanoseconds pressure_every_ns = 0;  ///< at most, between two swappings-out; 0: never
};

enum class Weather : std::uint8_t {
  kDrawn,  ///< what the seed says
  kCalm,   ///< no faults, no catastrophes, no forbidden requests
  kStorm,  ///< all of them at once, and more traffic
};

/// `nodes`: as many as this, instead of what the seed says.
Scenario draw_scenario(std::uint64_t seed, std::optional<std::uint32_t> nodes = {},
                       Weather weather = Weather::kDrawn);
/// The same, whose traffic is mostly reliable datagrams.
Scenario draw_reliable_datagrams(std::uint64_t seed, Weather weather = Weather::kDrawn);

}  // namespace weft::worlds

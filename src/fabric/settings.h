// What a topology file has no words for, in a private file beside it: lanes, latencies, rates,
// buffers and errors. Read once; a value. A line is one setting; '#' begins a comment:
//
//   lanes 2                       # virtual lanes of every link
//   whole-frames on               # a frame starts when the next buffer has room for all of it
//   turnaround 1                  # ticks that an output lane rests between two frames
//   control free                  # flits without data cost no turn (turns)
//   tick 5.12ns                   # what one flit of 64 bytes takes on a link of rate 1
//   grid torus 4x4                # dimension order, with the places of the switches below
//   place "S0-1" 0 1
//   default latency 2 slower 1 depth 16 errors 1e-6
//   link "Switch1"[4] latency 200 # both directions of that cable
//   node "Switch1" pipeline 3     # ticks that each flit spends in it
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fabric/links.h"
#include "fabric/text_error.h"
#include "fabric/topology.h"

namespace weft::fabric {

struct Settings {
  LinkSettings links;
  LinkProfile link;            ///< of each cable that is not named
  std::uint32_t pipeline = 0;  ///< of each switch and router that is not named
  double tick_ns = 5.12;       ///< 64 bytes at 100 Gb/s
  std::vector<std::pair<std::pair<std::uint32_t, std::uint32_t>, LinkProfile>> cables;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pipelines;
};

/// Names are looked up in the topology, whose places are set by `grid` and `place`.
Parsed<Settings> read_settings(std::string_view text, Topology& topology);

/// The lines `grid` and `place` of a topology that has dimensions.
std::string write_places(const Topology& topology);

}  // namespace weft::fabric

// Reads a topology: the net format of ibsim, and what ibnetdiscover prints, which is nearly the
// same. Stateless; any thread. What is wrong is told with its line, its column and what was
// expected.
//
//   vendid=0x2c9                       what ibnetdiscover says of the node that follows; ignored
//   switchguid=0x2c90300001dd0(...)    but for the GUID
//   Switch  8 "Switch1"                # "description" enhanced port 0 lid 3 lmc 0
//   [1]     "Hca1"[1](2c90300001dd1)   # "description" lid 7 4xQDR
//
// A node is Switch, Hca, Ca, Rt or Router, with its number of ports and its name. Lines of its
// ports follow until a blank one; a port that is not listed has no cable. Each cable stands at both
// ends, or at one, as ibsim allows. Where a remote port is left out it is 1.
#pragma once

#include <string_view>

#include "fabric/text_error.h"
#include "fabric/topology.h"

namespace weft::fabric {

/// At most so many nodes: a file that says more is refused.
inline constexpr std::uint32_t kMostNodes = 1'000'000;

Parsed<Topology> read_topology(std::string_view text);

}  // namespace weft::fabric

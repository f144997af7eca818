// Writes a topology as ibnetdiscover prints it, so that its readers (ibsim, Slurm's tools) take it.
// Stateless; any thread.
#pragma once

#include <string>

#include "fabric/topology.h"

namespace weft::fabric {

std::string write_topology(const Topology& topology);

}  // namespace weft::fabric

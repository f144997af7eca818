// From a device's options to its ports: addresses, sockets, and the wrappers that record
// frames or inject faults. Called once for each device that opens; any thread. The ports are the
// controller's.
#pragma once

#include <vector>

#include "verbs/controller.h"
#include "weft/verbs.h"

namespace weft::verbs {

Result<std::vector<PortSetup>> set_up_ports(const DeviceOptions& options,
                                            const Environment& environment);

}  // namespace weft::verbs

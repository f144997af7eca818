// The device of a process at an address of the machine. Where other hosts can reach the address,
// the device speaks RoCEv2 there, and all who open it in this process get handles of one device:
// its UDP port can be taken only once. Any thread.
#pragma once

#include <string>

#include "weft/result.h"
#include "weft/types.h"
#include "weft/verbs.h"

namespace weft::verbs {

/// A loopback address, or one whose UDP port another process has: a new device, for peers on this
/// host.
Result<Device> open_shared(const std::string& name, const Gid& address);

/// True when other hosts may reach the address.
bool is_network_address(const Gid& address);

}  // namespace weft::verbs

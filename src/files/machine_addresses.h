// The addresses of this machine's interfaces, for people: which address an interface has, by which
// one other hosts are reached, and what to say when there is none. As they are now; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "files/device_list.h"
#include "weft/result.h"
#include "weft/types.h"

namespace weft::files {

struct MachineAddress {
  std::string interface;
  Gid address;
  bool up = false;
};

/// In the kernel's order; IPv6 addresses of one link alone are left out.
std::vector<MachineAddress> machine_addresses();

/// "lo (127.0.0.1), eth0 (10.0.0.5, fd00::5)"
std::string to_string(const std::vector<MachineAddress>& addresses);

/// What people give for a device: an address, whether this machine has it or not; an interface,
/// whose first IPv4 or else IPv6 address it is; or "auto", the address by which this machine
/// reaches others, or else the first that is not a loopback address.
Result<Gid> parse_place(std::string_view text);

/// When a device at a loopback address is told to talk to an address that this machine has not:
/// says once in this process what to do about it.
void hint_at_other_host(const ShownDevice& device, const Gid& address);

}  // namespace weft::files

#include "cm/devices.h"

#include <algorithm>

namespace weft::cm {

void LocalAddresses::ask_interfaces() {
  if (asked_) return;
  asked_ = true;
  for (const Gid& each : devices_.interface_addresses()) {
    if (!knows(each)) all_.push_back(each);
  }
}

bool LocalAddresses::knows(const Gid& address) const {
  return std::find(all_.begin(), all_.end(), address) != all_.end();
}

bool LocalAddresses::has(const Gid& address) {
  if (knows(address)) return true;
  ask_interfaces();
  return knows(address);
}

bool LocalAddresses::reaches(const Gid& address) {
  Gid loopback6;
  loopback6.raw[15] = 1;
  return address == loopback6 || (address.is_ipv4() && address.raw[12] == 127) || has(address);
}

}  // namespace weft::cm

// The devices of the host that a connection manager runs on, as its core needs them. A driver
// implements this over the devices of a process, a simulated world over those of a node. Called
// with the manager's lock held; must not wait.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/types.h"

namespace weft::cm {

struct Device {
  Gid address;
  std::uint64_t guid = 0;
  std::uint8_t mtu_code = 5;     ///< the longest payload: 1: 256 bytes to 5: 4096
  bool reaches_network = false;  ///< other hosts, not this one alone
};

class Devices {
 public:
  virtual ~Devices() = default;
  /// At least one; none moves or goes.
  virtual const std::vector<const Device*>& all() = 0;
  /// The one by which the route to an address of another host leaves; null: none.
  virtual const Device* towards(const Gid& address) = 0;
  /// Of all interfaces of the machine, whether a device has them or not.
  virtual std::vector<Gid> interface_addresses() = 0;
  /// Messages have come for this queue pair that its owner has not fetched yet.
  virtual bool has_unfetched(const Gid& address, Qpn qpn) = 0;

  /// Null: none has this address.
  const Device* with_address(const Gid& address) {
    for (const Device* each : all()) {
      if (each->address == address) return each;
    }
    return nullptr;
  }
  /// The one that has the address, or else the first.
  const Device& for_address(const Gid& address) {
    const Device* const device = with_address(address);
    return device != nullptr ? *device : *all().front();
  }
};

/// Which addresses are this machine's. As they are now: interfaces come and go, so one is made for
/// each question of the program; the interfaces are asked for when the devices are not enough.
class LocalAddresses {
 public:
  explicit LocalAddresses(Devices& devices) : devices_(devices) {
    for (const Device* each : devices.all()) all_.push_back(each->address);
  }

  /// An interface's or a device's.
  bool has(const Gid& address);
  /// The same, or a loopback address: whoever has it is on this machine.
  bool reaches(const Gid& address);
  const std::vector<Gid>& all() {
    ask_interfaces();
    return all_;
  }

 private:
  void ask_interfaces();
  bool knows(const Gid& address) const;

  Devices& devices_;
  std::vector<Gid> all_;
  bool asked_ = false;
};

}  // namespace weft::cm

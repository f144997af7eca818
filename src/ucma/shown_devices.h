// The devices that a program is shown (files/device_list.h), as the connection manager needs them,
// and the way to other hosts through those that are not on loopback. One for each process; under
// the driver's lock, except where said.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "cm/actions.h"
#include "cm/devices.h"
#include "cm/driver.h"
#include "files/device_list.h"
#include "weft/verbs.h"

namespace weft::ucma {

class ShownDevices final : public cm::Devices {
 public:
  ShownDevices();

  const std::vector<const cm::Device*>& all() override { return all_; }
  const cm::Device* towards(const Gid& address) override;
  std::vector<Gid> interface_addresses() override;
  bool has_unfetched(const Gid& address, Qpn qpn) override;

  /// Opens those that reach other hosts, once. Without the lock: it may wait.
  void join_network(cm::Driver& driver);
  /// From the device that has the packet's source; lost if it reaches this host alone.
  void send_to_network(const cm::Packet& packet);
  /// At the device that has the address, if it reaches other hosts.
  void count_refused(const Gid& at);

 private:
  struct Shown {
    const files::ShownDevice* shown;
    cm::Device device;
    std::optional<verbs::Device> opened;  ///< by join_network()
  };
  /// Null: none has the address, or it reaches this host alone.
  verbs::Controller* network_controller(const Gid& address);

  std::deque<Shown> shown_;
  std::vector<const cm::Device*> all_;
};

/// The shown device with this address; null: none.
const files::ShownDevice* shown_with(const Gid& address);

}  // namespace weft::ucma

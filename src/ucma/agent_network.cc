#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "obs/log.h"
#include "ucma/agent.h"
#include "verbs/controller.h"
#include "verbs/shared_device.h"

// Other hosts: the devices through which they are reached.
namespace weft::ucma {

void Agent::join_network() {
  std::vector<const files::ShownDevice*> missing;
  {
    const Guard guard(*this);
    for (const auto& shown : files::shown_devices()) {
      if (verbs::is_network_address(shown.address) && !network_.contains(&shown)) {
        missing.push_back(&shown);
      }
    }
  }
  for (const auto* shown : missing) {
    auto device = verbs::open_shared(shown->name, shown->address);
    if (!device) {
      obs::log().warn("{}: the connection manager reaches this host alone: {}", shown->name,
                      device.error().message);
      continue;
    }
    const Guard guard(*this);
    network_.emplace(shown, std::move(*device));
  }
}

const verbs::Device* Agent::network_device(const files::ShownDevice& device) const {
  const auto found = network_.find(&device);
  const bool reaches = found != network_.end() && found->second.controller()->on_network(1);
  return reaches ? &found->second : nullptr;
}

void Agent::farewell() {
  // Whoever has the lock lets go of it soon, unless it is the thread that ends the program.
  constexpr int kTries = 20;
  int tries = 0;
  while (!lock_.try_lock()) {
    if (++tries == kTries) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const std::lock_guard guard(lock_, std::adopt_lock);
  for (const auto& [handle, id] : ids_) {
    if (id->link != kNetworkLink || !id->connection) continue;
    cm::Outcome out;
    id->connection->close(out);
    for (const auto& message : out.messages) transmit(*id, message);
  }
}

void Agent::use(Identifier& id, const files::ShownDevice& device) const {
  id.device = &device;
  id.local_gid = device.address;
  id.mtu_code = mtu_code_of(device);
}

std::uint8_t Agent::mtu_code_of(const files::ShownDevice& device) const {
  const verbs::Device* const network = network_device(device);
  const Mtu mtu = network != nullptr ? network->controller()->max_mtu(1) : Mtu::k4096;
  std::uint8_t code = 1;
  while (bytes(Mtu::k256) << (code - 1) < bytes(mtu)) ++code;
  return code;
}

}  // namespace weft::ucma

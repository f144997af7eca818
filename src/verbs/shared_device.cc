#include "verbs/shared_device.h"

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/lock.h"
#include "host/fork.h"
#include "network/address.h"
#include "obs/log.h"
#include "port/local_interface.h"
#include "verbs/controller.h"

namespace weft::verbs {
namespace {

using Key = std::pair<std::string, Gid>;

/// Those that are open now; a child's parent's are not.
class Open {
 public:
  std::shared_ptr<Controller> find(const Key& key) {
    const host::ForkHold hold;
    const std::lock_guard guard(lock_);
    const auto found = controllers_.find(key);
    if (found == controllers_.end()) return nullptr;
    auto controller = found->second.lock();
    return controller != nullptr && !controller->inherited() ? controller : nullptr;
  }
  void add(const Key& key, const std::shared_ptr<Controller>& controller) {
    const host::ForkHold hold;
    const std::lock_guard guard(lock_);
    controllers_[key] = controller;
  }

 private:
  base::Lock lock_;
  std::map<Key, std::weak_ptr<Controller>> controllers_;
};

Result<Device> open_new(const std::string& name, const Gid& address, bool on_network) {
  DeviceOptions options;
  options.name = name;
  options.ports.push_back({.address = network::to_string(address), .on_network = on_network});
  return Device::open(options);
}

}  // namespace

bool is_network_address(const Gid& address) { return !port::is_loopback(address); }

Result<Device> open_shared(const std::string& name, const Gid& address) {
  if (!is_network_address(address)) return open_new(name, address, false);
  static auto& open = *new Open;
  const Key key{name, address};
  if (auto controller = open.find(key)) return Device(std::move(controller));
  auto device = open_new(name, address, true);
  if (device) {
    open.add(key, device->controller());
    return device;
  }
  if (device.error().code != Errc::kBusy) return device;
  // Another thread may have been faster, or another process has it.
  if (auto controller = open.find(key)) return Device(std::move(controller));
  obs::log().warn("{}: only this host is reached: {}", name, device.error().message);
  return open_new(name, address, false);
}

}  // namespace weft::verbs

#include "ucma/local_addresses.h"

#include <ifaddrs.h>

#include <algorithm>
#include <memory>

#include "host/fd.h"
#include "host/fork.h"
#include "ucma/endpoint.h"

namespace weft::ucma {
namespace {

std::optional<Endpoint> endpoint_of(const sockaddr* address) {
  if (address == nullptr) return {};
  const void* const any = address;
  const auto* const bytes = static_cast<const std::byte*>(any);
  if (address->sa_family == AF_INET) return parse_endpoint({bytes, sizeof(sockaddr_in)});
  if (address->sa_family == AF_INET6) return parse_endpoint({bytes, sizeof(sockaddr_in6)});
  return {};
}

}  // namespace

LocalAddresses::LocalAddresses() {
  for (const auto& device : files::shown_devices()) all_.push_back(device.address);
}

void LocalAddresses::ask_kernel() const {
  if (asked_) return;
  asked_ = true;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    const auto endpoint = endpoint_of(at->ifa_addr);
    if (endpoint && !knows(endpoint->address)) all_.push_back(endpoint->address);
  }
}

bool LocalAddresses::knows(const Gid& address) const {
  return std::find(all_.begin(), all_.end(), address) != all_.end();
}

bool LocalAddresses::has(const Gid& address) const {
  if (knows(address)) return true;
  ask_kernel();
  return knows(address);
}

bool LocalAddresses::reaches(const Gid& address) const {
  Gid loopback6;
  loopback6.raw[15] = 1;
  return address == loopback6 || (address.is_ipv4() && address.raw[12] == 127) || has(address);
}

const files::ShownDevice* device_with(const Gid& address) {
  for (const auto& device : files::shown_devices()) {
    if (device.address == address) return &device;
  }
  return nullptr;
}

/// The kernel looks the route up when a socket is connected; nothing is sent.
const files::ShownDevice* device_towards(const Gid& address) {
  Endpoint towards;
  towards.family = address.is_ipv4() ? AF_INET : AF_INET6;
  towards.address = address;
  towards.port = cm::Port(1);
  sockaddr_storage name{};
  const auto size = static_cast<socklen_t>(emit_endpoint(towards, name));
  const host::Fd socket = [&] {
    const host::ForkHold hold;
    return host::Fd(::socket(towards.family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  }();
  auto* const generic = reinterpret_cast<sockaddr*>(&name);
  if (!socket || connect(socket.get(), generic, size) != 0) return nullptr;
  socklen_t most = sizeof name;
  if (getsockname(socket.get(), generic, &most) != 0) return nullptr;
  const auto source = parse_endpoint(name);
  return source ? device_with(source->address) : nullptr;
}

const files::ShownDevice& device_for(const Gid& address) {
  const auto* device = device_with(address);
  return device != nullptr ? *device : files::shown_devices().front();
}

}  // namespace weft::ucma

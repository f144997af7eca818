#include "ucma/shown_devices.h"

#include <ifaddrs.h>

#include <memory>

#include "cm/network_messages.h"
#include "host/fd.h"
#include "host/fork.h"
#include "obs/log.h"
#include "ucma/sockaddr.h"
#include "verbs/controller.h"
#include "verbs/process.h"
#include "verbs/shared_device.h"

namespace weft::ucma {
namespace {

std::optional<cm::SocketAddress> address_of(const sockaddr* address) {
  if (address == nullptr) return {};
  const void* const any = address;
  const auto* const bytes = static_cast<const std::byte*>(any);
  if (address->sa_family == AF_INET) return parse_sockaddr({bytes, sizeof(sockaddr_in)});
  if (address->sa_family == AF_INET6) return parse_sockaddr({bytes, sizeof(sockaddr_in6)});
  return {};
}

/// 1: 256 bytes to 5: 4096.
std::uint8_t code_of(Mtu mtu) {
  std::uint8_t code = 1;
  while (bytes(Mtu::k256) << (code - 1) < bytes(mtu)) ++code;
  return code;
}

}  // namespace

const files::ShownDevice* shown_with(const Gid& address) {
  for (const auto& device : files::shown_devices()) {
    if (device.address == address) return &device;
  }
  return nullptr;
}

ShownDevices::ShownDevices() {
  for (const auto& shown : files::shown_devices()) {
    shown_.push_back({&shown, {.address = shown.address, .guid = shown.guid}, {}});
    all_.push_back(&shown_.back().device);
  }
}

void ShownDevices::join_network(cm::Driver& driver) {
  for (Shown& each : shown_) {
    if (!verbs::is_network_address(each.shown->address)) continue;
    {
      const cm::Driver::Guard guard(driver);
      if (each.opened) continue;
    }
    auto opened = verbs::open_shared(each.shown->name, each.shown->address);
    if (!opened) {
      obs::log().warn("{}: the connection manager reaches this host alone: {}", each.shown->name,
                      opened.error().message);
      continue;
    }
    const cm::Driver::Guard guard(driver);
    if (each.opened) continue;
    each.opened = std::move(*opened);
    each.device.reaches_network = each.opened->controller()->on_network(1);
    if (each.device.reaches_network) {
      each.device.mtu_code = code_of(each.opened->controller()->max_mtu(1));
    }
  }
}

verbs::Controller* ShownDevices::network_controller(const Gid& address) {
  for (Shown& each : shown_) {
    if (each.shown->address == address && each.device.reaches_network) {
      return each.opened->controller().get();
    }
  }
  return nullptr;
}

void ShownDevices::send_to_network(const cm::Packet& packet) {
  auto* const controller = network_controller(packet.source);
  if (controller != nullptr) cm::send_to_network(controller->gsi(), packet);
}

void ShownDevices::count_refused(const Gid& at) {
  auto* const controller = network_controller(at);
  if (controller != nullptr) controller->counters().add(obs::Counter::kRefusedMessages);
}

bool ShownDevices::has_unfetched(const Gid& address, Qpn qpn) {
  const auto table = verbs::process_environment().directory->find(address, qpn);
  return table != nullptr && table->has_unfetched(qpn);
}

std::vector<Gid> ShownDevices::interface_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<Gid> addresses;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (const auto address = address_of(at->ifa_addr)) addresses.push_back(address->address);
  }
  return addresses;
}

/// The kernel looks the route up when a socket is connected; nothing is sent.
const cm::Device* ShownDevices::towards(const Gid& address) {
  cm::SocketAddress peer;
  peer.family = address.is_ipv4() ? cm::Family::kIpv4 : cm::Family::kIpv6;
  peer.address = address;
  peer.port = cm::Port(1);
  sockaddr_storage name{};
  const auto size = static_cast<socklen_t>(emit_sockaddr(peer, name));
  const host::Fd socket = [&] {
    const host::ForkHold hold;
    return host::Fd(::socket(name.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  }();
  auto* const generic = reinterpret_cast<sockaddr*>(&name);
  if (!socket || connect(socket.get(), generic, size) != 0) return nullptr;
  socklen_t most = sizeof name;
  if (getsockname(socket.get(), generic, &most) != 0) return nullptr;
  const auto source = parse_sockaddr(name);
  return source ? with_address(source->address) : nullptr;
}

}  // namespace weft::ucma

#include "files/machine_addresses.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>

#include "files/gid_table.h"
#include "host/fd.h"
#include "host/fork.h"
#include "network/address.h"
#include "obs/log.h"
#include "port/local_interface.h"

namespace weft::files {
namespace {

std::optional<Gid> gid_of(const sockaddr* address) {
  if (address == nullptr) return {};
  if (address->sa_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, address, sizeof in);
    std::uint8_t b[4];
    std::memcpy(b, &in.sin_addr, sizeof b);
    return Gid::ipv4(b[0], b[1], b[2], b[3]);
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 in6;
    std::memcpy(&in6, address, sizeof in6);
    Gid gid;
    std::memcpy(gid.raw.data(), &in6.sin6_addr, gid.raw.size());
    return gid;
  }
  return {};
}

/// The address from which the kernel would send to this one. Nothing is sent.
std::optional<Gid> source_towards(const sockaddr* destination, socklen_t size) {
  const host::Fd socket = [&] {
    const host::ForkHold hold;
    return host::Fd(::socket(destination->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  }();
  if (!socket || connect(socket.get(), destination, size) != 0) return {};
  sockaddr_storage name{};
  size = sizeof name;
  auto* const generic = reinterpret_cast<sockaddr*>(&name);
  if (getsockname(socket.get(), generic, &size) != 0) return {};
  const auto source = gid_of(generic);
  const bool reaches = source && !port::is_loopback(*source) && !is_link_local(*source);
  return reaches ? source : std::nullopt;
}

/// By the default route: the addresses that are asked about belong to documentation alone.
std::optional<Gid> source_of_default_route() {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(9);
  v4.sin_addr.s_addr = htonl(0xC0000201);  // 192.0.2.1
  if (auto source = source_towards(reinterpret_cast<sockaddr*>(&v4), sizeof v4)) return source;
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(9);
  const std::uint8_t prefix[] = {0x20, 0x01, 0x0d, 0xb8};  // 2001:db8::
  std::memcpy(&v6.sin6_addr, prefix, sizeof prefix);
  return source_towards(reinterpret_cast<sockaddr*>(&v6), sizeof v6);
}

/// The first IPv4 address that will do, or else the first IPv6 one.
template <class Will>
std::optional<Gid> first_of(const std::vector<MachineAddress>& addresses, Will will) {
  for (const bool ipv4 : {true, false}) {
    for (const MachineAddress& each : addresses) {
      if (each.address.is_ipv4() == ipv4 && will(each)) return each.address;
    }
  }
  return {};
}

Result<Gid> automatic() {
  if (const auto source = source_of_default_route()) return *source;
  const auto all = machine_addresses();
  const auto first = first_of(
      all, [](const MachineAddress& each) { return each.up && !port::is_loopback(each.address); });
  if (first) return *first;
  return fail(Errc::kNotFound,
              fmt::format("auto: this machine has no address that other hosts reach, only {}; give "
                          "an interface one, or leave '=auto' out for programs of this host",
                          to_string(all)));
}

Result<Gid> of_interface(std::string_view name) {
  const auto all = machine_addresses();
  const auto first =
      first_of(all, [name](const MachineAddress& each) { return each.interface == name; });
  if (first) return *first;
  if (if_nametoindex(std::string(name).c_str()) != 0) {
    return fail(Errc::kNotFound,
                fmt::format("interface {} has no address: give it one (ip address add "
                            "10.0.0.1/24 dev {}), or take another: {}",
                            name, name, to_string(all)));
  }
  return fail(Errc::kNotFound,
              fmt::format("this machine has neither an interface nor an address '{}'; it has {}",
                          name, to_string(all)));
}

bool looks_like_address(std::string_view text) {
  return text.find(':') != std::string_view::npos ||
         text.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace

std::vector<MachineAddress> machine_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<MachineAddress> addresses;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    const auto address = gid_of(at->ifa_addr);
    if (!address || is_link_local(*address)) continue;
    addresses.push_back({at->ifa_name, *address, (at->ifa_flags & IFF_UP) != 0});
  }
  return addresses;
}

std::string to_string(const std::vector<MachineAddress>& addresses) {
  std::string out;
  std::vector<std::string_view> told;
  for (const MachineAddress& each : addresses) {
    if (std::find(told.begin(), told.end(), each.interface) != told.end()) continue;
    told.push_back(each.interface);
    std::string of_this;
    for (const MachineAddress& other : addresses) {
      if (other.interface != each.interface) continue;
      of_this += (of_this.empty() ? "" : ", ") + network::to_string(other.address);
    }
    out += fmt::format("{}{} ({})", out.empty() ? "" : ", ", each.interface, of_this);
  }
  return out.empty() ? "none at all" : out;
}

Result<Gid> parse_place(std::string_view text) {
  if (text == "auto") return automatic();
  auto address = network::parse_address(text);
  if (address || text.empty() || looks_like_address(text)) return address;
  return of_interface(text);
}

void hint_at_other_host(const ShownDevice& device, const Gid& address) {
  static std::atomic<bool> said{false};
  if (!port::is_loopback(device.address) || port::is_loopback(address) || is_link_local(address) ||
      address.is_multicast() || said.load(std::memory_order_relaxed)) {
    return;
  }
  const auto all = machine_addresses();
  const bool ours = std::any_of(
      all.begin(), all.end(), [&](const MachineAddress& each) { return each.address == address; });
  if (ours || said.exchange(true)) return;
  obs::log().warn(
      "device {} is at {}, which other hosts do not reach; to reach {} run: weft run --device "
      "{}=auto -- ...",
      device.name, network::to_string(device.address), network::to_string(address), device.name);
}

}  // namespace weft::files

#include "port/local_interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "port/udp_socket.h"
#include "wire/icrc.h"
#include "wire/opcode.h"

namespace weft::port {
namespace {

bool has_address(const ifaddrs& entry, const Gid& address) {
  if (entry.ifa_addr == nullptr) return false;
  SocketAddress theirs;
  switch (entry.ifa_addr->sa_family) {
    case AF_INET:
      std::memcpy(&theirs.v4, entry.ifa_addr, sizeof theirs.v4);
      theirs.size = sizeof theirs.v4;
      break;
    case AF_INET6:
      std::memcpy(&theirs.v6, entry.ifa_addr, sizeof theirs.v6);
      theirs.size = sizeof theirs.v6;
      break;
    default:
      return false;
  }
  const auto endpoint = to_endpoint(theirs);
  return endpoint && endpoint->address == address;
}

/// 0 when the kernel does not say.
std::size_t link_bytes_of(const char* name) {
  const host::ForkHold hold;
  const host::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
  if (socket.get() < 0 || ioctl(socket.get(), SIOCGIFMTU, &request) != 0) return 0;
  return request.ifr_mtu > 0 ? static_cast<std::size_t>(request.ifr_mtu) : 0;
}

}  // namespace

std::optional<LocalInterface> find_interface(const Gid& address) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(first, freeifaddrs);
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (!has_address(*entry, address)) continue;
    constexpr unsigned kWorking = IFF_UP | IFF_RUNNING;
    return LocalInterface{if_nametoindex(entry->ifa_name), (entry->ifa_flags & IFF_LOOPBACK) != 0,
                          link_bytes_of(entry->ifa_name),
                          (entry->ifa_flags & kWorking) == kWorking};
  }
  return std::nullopt;
}

bool is_loopback(const Gid& address) {
  if (address.is_ipv4()) return address.raw[12] == 127;
  constexpr auto kLoopback = [] {
    Gid gid;
    gid.raw[15] = 1;
    return gid;
  }();
  return address == kLoopback;
}

Mtu largest_mtu(std::size_t link_bytes, bool ipv4) {
  const std::size_t around = (ipv4 ? wire::Ipv4::kSize : wire::Ipv6::kSize) + wire::Udp::kSize +
                             wire::kMaxHeaderBytes + wire::kIcrcSize;
  for (const Mtu mtu : {Mtu::k4096, Mtu::k2048, Mtu::k1024, Mtu::k512}) {
    if (bytes(mtu) + around <= link_bytes) return mtu;
  }
  return Mtu::k256;
}

Mtu mtu_of_address(const Gid& address, const std::optional<LocalInterface>& interface) {
  if (is_loopback(address)) return Mtu::k4096;
  // A routable address on the loopback interface is reached through another one.
  if (!interface || interface->loopback || interface->link_bytes == 0) return Mtu::k1024;
  return largest_mtu(interface->link_bytes, address.is_ipv4());
}

}  // namespace weft::port

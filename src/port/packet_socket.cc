#include "port/packet_socket.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "host/system_error.h"
#include "network/address.h"
#include "port/local_interface.h"

namespace weft::port {
namespace {

constexpr int kRawBufferBytes = 4 << 20;

template <class Value>
bool set_option(const host::Fd& socket, int level, int name, const Value& value) {
  return setsockopt(socket.get(), level, name, &value, sizeof value) == 0;
}

tl::unexpected<Error> raw_error(const std::string& step, int error_number) {
  if (error_number == EPERM || error_number == EACCES) {
    return fail(Errc::kNotPermitted,
                "raw queue pair: " + step +
                    " needs the capability CAP_NET_RAW: run as root of this network namespace, or "
                    "give it to the program (setcap cap_net_raw+ep FILE)");
  }
  return host::system_error("raw queue pair: " + step, error_number);
}

Result<host::Fd> open_socket(int family, int type, int protocol, const std::string& step) {
  const host::ForkHold hold;
  host::Fd socket(::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol));
  if (socket.get() < 0) return raw_error(step, errno);
  return socket;
}

sockaddr_ll link_name(const RawInterface& interface, std::uint16_t protocol) {
  sockaddr_ll name{};
  name.sll_family = AF_PACKET;
  name.sll_protocol = htons(protocol);
  name.sll_ifindex = static_cast<int>(interface.index);
  return name;
}

Result<void> bind_to_link(const host::Fd& socket, const RawInterface& interface,
                          std::uint16_t protocol) {
  const sockaddr_ll name = link_name(interface, protocol);
  const void* const any = &name;
  if (bind(socket.get(), static_cast<const sockaddr*>(any), sizeof name) == 0) return {};
  return raw_error("binding a packet socket to " + interface.name, errno);
}

void enlarge(const host::Fd& socket, int name, int forced_name) {
  if (!set_option(socket, SOL_SOCKET, forced_name, kRawBufferBytes)) {
    set_option(socket, SOL_SOCKET, name, kRawBufferBytes);
  }
}

}  // namespace

Result<RawInterface> find_raw_interface(const Gid& address) {
  auto found = find_interface(address);
  RawInterface out;
  if (found) {
    out.index = found->index;
  } else if (is_loopback(address)) {
    out.index = if_nametoindex("lo");
  }
  char name[IF_NAMESIZE] = {};
  if (out.index == 0 || if_indextoname(out.index, name) == nullptr) {
    return fail(Errc::kNotFound, "address " + network::to_string(address) +
                                     ": no interface has it, so no raw packets leave from there");
  }
  out.name = name;
  const auto socket = open_socket(AF_INET, SOCK_DGRAM, 0, "asking about " + out.name);
  if (!socket) return tl::unexpected(socket.error());
  ifreq request{};
  std::copy_n(name, std::size(name), request.ifr_name);
  if (ioctl(socket->get(), SIOCGIFHWADDR, &request) == 0) {
    std::memcpy(out.link_address.data(), request.ifr_hwaddr.sa_data, out.link_address.size());
    out.loopback = request.ifr_hwaddr.sa_family == 772;  // ARPHRD_LOOPBACK
  }
  if (ioctl(socket->get(), SIOCGIFMTU, &request) != 0 || request.ifr_mtu <= 0) {
    return host::system_error("asking for the MTU of " + out.name, errno);
  }
  out.max_packet = std::min(static_cast<std::uint32_t>(request.ifr_mtu),
                            out.loopback ? kMostLoopbackBytes : kMostPacketBytes);
  return out;
}

Result<host::Fd> open_frame_sender(const RawInterface& interface) {
  auto socket = open_socket(AF_PACKET, SOCK_RAW, 0, "opening a packet socket");
  if (!socket) return socket;
  if (auto bound = bind_to_link(*socket, interface, 0); !bound) {
    return tl::unexpected(bound.error());
  }
  // Frames go straight to the interface; kernels that cannot take the usual way.
  set_option(*socket, SOL_PACKET, PACKET_QDISC_BYPASS, 1);
  enlarge(*socket, SO_SNDBUF, SO_SNDBUFFORCE);
  return socket;
}

host::Fd open_train_sender(const RawInterface& interface) {
  auto socket = open_frame_sender(interface);
  if (!socket || !set_option(*socket, SOL_PACKET, PACKET_VNET_HDR, 1)) return {};
  return std::move(*socket);
}

Result<host::Fd> open_packet_sender(const RawInterface& interface, bool ipv4) {
  auto socket =
      open_socket(ipv4 ? AF_INET : AF_INET6, SOCK_RAW, IPPROTO_RAW, "opening a raw IP socket");
  if (!socket) return socket;
  const bool done = ipv4 ? set_option(*socket, IPPROTO_IP, IP_HDRINCL, 1)
                         : set_option(*socket, IPPROTO_IPV6, IPV6_HDRINCL, 1);
  ifreq device{};
  std::copy_n(interface.name.c_str(), interface.name.size() + 1, device.ifr_name);
  if (!done || !set_option(*socket, SOL_SOCKET, SO_BINDTODEVICE, device)) {
    return raw_error("binding a raw IP socket to " + interface.name, errno);
  }
  enlarge(*socket, SO_SNDBUF, SO_SNDBUFFORCE);
  return socket;
}

Result<host::Fd> open_frame_receiver() {
  auto socket = open_socket(AF_PACKET, SOCK_RAW, 0, "opening a packet socket");
  if (!socket) return socket;
  let_through(*socket, false);
  // What this machine sends there does not arrive; on a loopback interface it does all the same.
  set_option(*socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
  return socket;
}

Result<void> bind_receiver(const host::Fd& socket, const RawInterface& interface) {
  return bind_to_link(socket, interface, ETH_P_ALL);
}

void let_through(const host::Fd& socket, bool all) {
  sock_filter give[] = {BPF_STMT(BPF_RET | BPF_K, all ? 0xFFFF'FFFFu : 0u)};
  const sock_fprog program{1, give};
  set_option(socket, SOL_SOCKET, SO_ATTACH_FILTER, program);
}

void join_promiscuously(const host::Fd& socket, const RawInterface& interface) {
  packet_mreq membership{};
  membership.mr_ifindex = static_cast<int>(interface.index);
  membership.mr_type = PACKET_MR_PROMISC;
  set_option(socket, SOL_PACKET, PACKET_ADD_MEMBERSHIP, membership);
}

}  // namespace weft::port

#include "port/udp_socket.h"

#include <arpa/inet.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/assert.h"
#include "network/address.h"
#include "wire/udp.h"

namespace weft::port {
namespace {

constexpr int kBufferBytes = 4 << 20;
constexpr int kSendersReceiveBytes = 4096;

// Above the range that Linux hands out by itself (32768 to 60999), so that little is taken.
constexpr std::size_t kFirstSourcePort = 0xEF00;
constexpr std::size_t kSourcePortsPerSocket = 0x1000 / kSendSockets;
constexpr std::size_t kFirstConnectedPort = kFirstSourcePort + kSendSockets * kSourcePortsPerSocket;
static_assert(kFirstConnectedPort + kSourcePortsPerSocket == 0x10000);

/// Of groups, those that stay on the link or on the interface.
bool is_link_local(const Gid& address) {
  if (address.raw[0] == 0xFF) return (address.raw[1] & 0x0F) <= 2;
  return address.raw[0] == 0xFE && (address.raw[1] & 0xC0) == 0x80;
}

bool set(const host::Fd& socket, int level, int name, int value) {
  return setsockopt(socket.get(), level, name, &value, sizeof value) == 0;
}

/// As far as the machine permits; with privileges, beyond.
void enlarge_buffer(const host::Fd& socket, int name, int privileged_name) {
  if (!set(socket, SOL_SOCKET, privileged_name, kBufferBytes)) {
    set(socket, SOL_SOCKET, name, kBufferBytes);
  }
}

std::string reason(int error_number) { return std::string(": ") + std::strerror(error_number); }

tl::unexpected<Error> socket_error(const Gid& address, const std::string& step, int error_number) {
  const std::string where = "address " + network::to_string(address) + ": ";
  switch (error_number) {
    case EADDRINUSE:
      return fail(Errc::kBusy,
                  where + step +
                      ": the UDP port is in use: another user's process, or a program that does "
                      "not share it, has this address; use another address of this machine (each "
                      "of 127.0.0.0/8 is one), or end that process");
    case EADDRNOTAVAIL:
    case ENODEV:
      return fail(Errc::kNotFound,
                  where + step +
                      ": not an address of this machine, or not ready yet; use one that `ip "
                      "address` lists, or add it to an interface");
    case EACCES:
    case EPERM:
      return fail(Errc::kNotPermitted,
                  where + step + reason(error_number) +
                      "; a security policy forbids UDP sockets here: run where UDP port " +
                      std::to_string(wire::kRoceUdpPort) + " may be bound");
    case EAFNOSUPPORT:
      return fail(Errc::kNotSupported, where + step + ": this machine has no " +
                                           (address.is_ipv4() ? "IPv4" : "IPv6") +
                                           "; use an address of the other family");
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return fail(Errc::kOutOfMemory, where + step + reason(error_number) +
                                          "; close descriptors or raise their limit (ulimit -n)");
    default:
      return fail(Errc::kSystem, where + step + reason(error_number));
  }
}

Result<host::Fd> make_socket(const Gid& address) {
  const bool ipv4 = address.is_ipv4();
  const host::ForkHold hold;
  host::Fd socket(
      ::socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return socket_error(address, "making a socket", errno);
  const bool done = ipv4 ? set(socket, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO) &&
                               set(socket, IPPROTO_IP, IP_TTL, kDefaultHopLimit)
                         : set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 1) &&
                               set(socket, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO) &&
                               set(socket, IPPROTO_IPV6, IPV6_UNICAST_HOPS, kDefaultHopLimit);
  if (!done) return socket_error(address, "setting up a socket", errno);
  return socket;
}

bool bind_to(const host::Fd& socket, const Endpoint& endpoint, std::uint32_t interface) {
  const SocketAddress name = to_socket_address(endpoint, interface);
  return bind(socket.get(), &name.generic, name.size) == 0;
}

ip_mreqn membership(const Gid& group, const Gid& local, std::uint32_t interface) {
  ip_mreqn out{};
  if (group.is_ipv4()) std::memcpy(&out.imr_multiaddr, &group.raw[12], 4);
  std::memcpy(&out.imr_address, &local.raw[12], 4);
  out.imr_ifindex = static_cast<int>(interface);
  return out;
}

/// Multicasts leave by the interface that has the address. Where that cannot be said, routes
/// decide.
void set_multicast_interface(const host::Fd& socket, const Gid& local, std::uint32_t interface) {
  if (local.is_ipv4()) {
    const ip_mreqn way = membership(Gid{}, local, interface);
    setsockopt(socket.get(), IPPROTO_IP, IP_MULTICAST_IF, &way, sizeof way);
    set(socket, IPPROTO_IP, IP_MULTICAST_TTL, kDefaultHopLimit);
  } else {
    set(socket, IPPROTO_IPV6, IPV6_MULTICAST_IF, static_cast<int>(interface));
    set(socket, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, kDefaultHopLimit);
  }
}

bool join_group(const host::Fd& socket, const Gid& group, const Gid& local,
                std::uint32_t interface) {
  if (group.is_ipv4()) {
    const ip_mreqn wanted = membership(group, local, interface);
    return set(socket, IPPROTO_IP, IP_MULTICAST_ALL, 0) &&
           setsockopt(socket.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &wanted, sizeof wanted) == 0;
  }
  ipv6_mreq wanted{};
  std::memcpy(&wanted.ipv6mr_multiaddr, group.raw.data(), group.raw.size());
  wanted.ipv6mr_interface = interface;
  set(socket, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);  // kernels before 4.20 deliver more
  return setsockopt(socket.get(), IPPROTO_IPV6, IPV6_JOIN_GROUP, &wanted, sizeof wanted) == 0;
}

/// What precedes a received datagram is asked for here. rxe sends checksum 0 also over IPv6, where
/// a socket refuses that unless told otherwise.
bool report_traffic_class(const host::Fd& socket, bool ipv4) {
  return ipv4 ? set(socket, IPPROTO_IP, IP_RECVTOS, 1)
              : set(socket, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1) &&
                    set(socket, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
}

/// Nobody reads from a sending socket, so what strangers send there stays in its buffer: room for a
/// copy of what was sent (connected_sender.h) and little more. Before the socket is bound. Not a
/// filter that drops everything: each would be a program in the kernel, and Linux 6.18 is stuck for
/// good when a thousand of them are let go at once, as when many processes end together.
bool limit_receive_buffer(const host::Fd& socket) {
  return set(socket, SOL_SOCKET, SO_RCVBUF, kSendersReceiveBytes);
}

/// Bound to the first of kSourcePortsPerSocket ports that is free, from the `start`-th on.
Result<SendSocket> open_sending(const Gid& address, std::uint32_t interface, std::size_t first,
                                std::size_t start) {
  auto socket = make_socket(address);
  if (!socket) return tl::unexpected(socket.error());
  if (!limit_receive_buffer(*socket)) {
    return socket_error(address, "limiting what a sending socket receives", errno);
  }
  enlarge_buffer(*socket, SO_SNDBUF, SO_SNDBUFFORCE);
  const bool classed = address.is_ipv4()
                           ? set(*socket, IPPROTO_IP, IP_TOS, kDefaultTrafficClass)
                           : set(*socket, IPPROTO_IPV6, IPV6_TCLASS, kDefaultTrafficClass);
  if (!classed) return socket_error(address, "setting a traffic class", errno);
  set_multicast_interface(*socket, address, interface);
  for (std::size_t i = 0; i < kSourcePortsPerSocket; ++i) {
    const auto port = static_cast<std::uint16_t>(first + (start + i) % kSourcePortsPerSocket);
    if (bind_to(*socket, {address, port}, interface)) return SendSocket{std::move(*socket), port};
    if (errno != EADDRINUSE) break;
  }
  return socket_error(address, "binding a source port", errno);
}

}  // namespace

SocketAddress to_socket_address(const Endpoint& endpoint, std::uint32_t interface) {
  SocketAddress out;
  std::memset(&out, 0, sizeof out);
  if (endpoint.address.is_ipv4()) {
    out.v4.sin_family = AF_INET;
    out.v4.sin_port = htons(endpoint.port);
    std::memcpy(&out.v4.sin_addr, &endpoint.address.raw[12], 4);
    out.size = sizeof out.v4;
  } else {
    out.v6.sin6_family = AF_INET6;
    out.v6.sin6_port = htons(endpoint.port);
    std::memcpy(&out.v6.sin6_addr, endpoint.address.raw.data(), endpoint.address.raw.size());
    if (is_link_local(endpoint.address)) out.v6.sin6_scope_id = interface;
    out.size = sizeof out.v6;
  }
  return out;
}

std::optional<Endpoint> to_endpoint(const SocketAddress& address) {
  Endpoint out;
  if (address.size == sizeof address.v4 && address.v4.sin_family == AF_INET) {
    out.address.raw[10] = out.address.raw[11] = 0xFF;
    std::memcpy(&out.address.raw[12], &address.v4.sin_addr, 4);
    out.port = ntohs(address.v4.sin_port);
    return out;
  }
  if (address.size == sizeof address.v6 && address.v6.sin6_family == AF_INET6) {
    std::memcpy(out.address.raw.data(), &address.v6.sin6_addr, out.address.raw.size());
    out.port = ntohs(address.v6.sin6_port);
    return out;
  }
  return std::nullopt;
}

void report_hop_limits(const host::Fd& socket, bool ipv4) {
  if (ipv4) {
    set(socket, IPPROTO_IP, IP_RECVTTL, 1);
  } else {
    set(socket, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
  }
}

void enable_gro(const host::Fd& socket) {
  set(socket, IPPROTO_UDP, UDP_GRO, 1);  // kernels before 5.0 deliver frames one by one
}

Result<host::Fd> make_receive_socket(const Gid& address) {
  auto socket = make_socket(address);
  if (!socket) return socket;
  if (!report_traffic_class(*socket, address.is_ipv4())) {
    return socket_error(address, "setting up the receiving socket", errno);
  }
  enlarge_buffer(*socket, SO_RCVBUF, SO_RCVBUFFORCE);
  return socket;
}

Result<void> bind_receive_socket(const host::Fd& socket, const Gid& address,
                                 std::uint32_t interface, Sharing sharing) {
  if (sharing == Sharing::kShared && !set(socket, SOL_SOCKET, SO_REUSEPORT, 1)) {
    return socket_error(address, "sharing the UDP port", errno);
  }
  if (bind_to(socket, {address, wire::kRoceUdpPort}, interface)) return {};
  const int error_number = errno;
  return socket_error(address, "binding UDP port " + std::to_string(wire::kRoceUdpPort),
                      error_number);
}

Result<host::Fd> open_receive_socket(const Gid& address, std::uint32_t interface, Sharing sharing) {
  auto socket = make_receive_socket(address);
  if (!socket) return socket;
  if (auto bound = bind_receive_socket(*socket, address, interface, sharing); !bound) {
    return tl::unexpected(bound.error());
  }
  return socket;
}

Result<host::Fd> open_group_socket(const Gid& group, const Gid& local, std::uint32_t interface) {
  auto socket = make_socket(group);
  if (!socket) return socket;
  if (!report_traffic_class(*socket, group.is_ipv4()) ||
      !set(*socket, SOL_SOCKET, SO_REUSEADDR, 1)) {
    return socket_error(group, "setting up the group's socket", errno);
  }
  enlarge_buffer(*socket, SO_RCVBUF, SO_RCVBUFFORCE);
  report_hop_limits(*socket, group.is_ipv4());
  if (!bind_to(*socket, {group, wire::kRoceUdpPort}, interface)) {
    return socket_error(group, "binding the group's UDP port", errno);
  }
  if (!join_group(*socket, group, local, interface)) {
    return socket_error(group, "joining the group at " + network::to_string(local), errno);
  }
  return socket;
}

Result<SendSocket> open_send_socket(const Gid& address, std::uint32_t interface,
                                    std::size_t index) {
  WEFT_ASSERT(index < kSendSockets);
  return open_sending(address, interface, kFirstSourcePort + index * kSourcePortsPerSocket, 0);
}

Result<SendSocket> open_connected_sender(const Gid& address, std::uint32_t interface,
                                         std::size_t count) {
  return open_sending(address, interface, kFirstConnectedPort, count);
}

bool is_connected_port(std::uint16_t port) { return port >= kFirstConnectedPort; }

bool refuses_gso(int error_number) {
  return error_number == EIO || error_number == EOPNOTSUPP || error_number == ENOPROTOOPT;
}

SendError classify_send_error(int error_number) {
  switch (error_number) {
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
    case EINTR:
      return SendError::kBusy;
    case EFAULT:
      return SendError::kFaulted;
    default:
      return SendError::kLost;
  }
}

}  // namespace weft::port

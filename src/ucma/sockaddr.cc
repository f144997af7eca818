#include "ucma/sockaddr.h"

#include <cstring>

#include "base/assert.h"

namespace weft::ucma {
namespace {

Gid gid_of(const in_addr& address) {
  std::uint8_t b[4];
  std::memcpy(b, &address, sizeof b);
  return Gid::ipv4(b[0], b[1], b[2], b[3]);
}

}  // namespace

std::optional<cm::SocketAddress> parse_sockaddr(std::span<const std::byte> sockaddr) {
  sa_family_t family = AF_UNSPEC;
  if (sockaddr.size() < sizeof family) return {};
  std::memcpy(&family, sockaddr.data(), sizeof family);
  cm::SocketAddress address;
  if (family == AF_INET && sockaddr.size() >= sizeof(sockaddr_in)) {
    sockaddr_in in;
    std::memcpy(&in, sockaddr.data(), sizeof in);
    address.family = cm::Family::kIpv4;
    address.address = gid_of(in.sin_addr);
    address.port = cm::Port(ntohs(in.sin_port));
    return address;
  }
  if (family == AF_INET6 && sockaddr.size() >= sizeof(sockaddr_in6)) {
    sockaddr_in6 in6;
    std::memcpy(&in6, sockaddr.data(), sizeof in6);
    address.family = cm::Family::kIpv6;
    std::memcpy(address.address.raw.data(), &in6.sin6_addr, address.address.raw.size());
    address.port = cm::Port(ntohs(in6.sin6_port));
    address.flow_info = in6.sin6_flowinfo;
    address.scope = in6.sin6_scope_id;
    return address;
  }
  return {};
}

std::size_t sockaddr_size(cm::Family family) {
  switch (family) {
    case cm::Family::kNone:
      return 0;
    case cm::Family::kIpv4:
      return sizeof(sockaddr_in);
    case cm::Family::kIpv6:
      break;
  }
  return sizeof(sockaddr_in6);
}

std::size_t emit_sockaddr(const cm::SocketAddress& address, std::span<std::byte> sockaddr) {
  WEFT_ASSERT(sockaddr.size() >= sockaddr_size(address.family));
  if (address.family == cm::Family::kIpv4) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(address.port.value);
    std::memcpy(&in.sin_addr, &address.address.raw[12], sizeof in.sin_addr);
    std::memcpy(sockaddr.data(), &in, sizeof in);
  } else if (address.family == cm::Family::kIpv6) {
    sockaddr_in6 in6{};
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(address.port.value);
    in6.sin6_flowinfo = address.flow_info;
    in6.sin6_scope_id = address.scope;
    std::memcpy(&in6.sin6_addr, address.address.raw.data(), sizeof in6.sin6_addr);
    std::memcpy(sockaddr.data(), &in6, sizeof in6);
  }
  return sockaddr_size(address.family);
}

}  // namespace weft::ucma

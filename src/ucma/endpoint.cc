#include "ucma/endpoint.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace weft::ucma {
namespace {

Gid gid_of(const in_addr& address) {
  std::uint8_t b[4];
  std::memcpy(b, &address, sizeof b);
  return Gid::ipv4(b[0], b[1], b[2], b[3]);
}

constexpr Gid kAnyIpv4 = Gid::ipv4(0, 0, 0, 0);

}  // namespace

bool Endpoint::any() const { return address == Gid{} || address == kAnyIpv4; }

bool Endpoint::multicast() const {
  return address.is_ipv4() ? (address.raw[12] & 0xF0) == 0xE0 : address.raw[0] == 0xFF;
}

Endpoint Endpoint::with_any() const { return with_address(family == AF_INET ? kAnyIpv4 : Gid{}); }

Endpoint Endpoint::with_address(const Gid& gid) const {
  Endpoint other = *this;
  other.address = gid;
  return other;
}

std::optional<Endpoint> parse_endpoint(std::span<const std::byte> sockaddr) {
  Endpoint endpoint;
  if (sockaddr.size() < sizeof endpoint.family) return {};
  std::memcpy(&endpoint.family, sockaddr.data(), sizeof endpoint.family);
  if (endpoint.family == AF_INET && sockaddr.size() >= sizeof(sockaddr_in)) {
    sockaddr_in in;
    std::memcpy(&in, sockaddr.data(), sizeof in);
    endpoint.address = gid_of(in.sin_addr);
    endpoint.port = cm::Port(ntohs(in.sin_port));
    return endpoint;
  }
  if (endpoint.family == AF_INET6 && sockaddr.size() >= sizeof(sockaddr_in6)) {
    sockaddr_in6 in6;
    std::memcpy(&in6, sockaddr.data(), sizeof in6);
    std::memcpy(endpoint.address.raw.data(), &in6.sin6_addr, endpoint.address.raw.size());
    endpoint.port = cm::Port(ntohs(in6.sin6_port));
    endpoint.flow_info = in6.sin6_flowinfo;
    endpoint.scope = in6.sin6_scope_id;
    return endpoint;
  }
  return {};
}

std::size_t emit_endpoint(const Endpoint& endpoint, std::span<std::byte> sockaddr) {
  if (endpoint.family == AF_INET) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(endpoint.port.value);
    std::memcpy(&in.sin_addr, &endpoint.address.raw[12], sizeof in.sin_addr);
    WEFT_ASSERT(sockaddr.size() >= sizeof in);
    std::memcpy(sockaddr.data(), &in, sizeof in);
    return sizeof in;
  }
  if (endpoint.family == AF_INET6) {
    sockaddr_in6 in6{};
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(endpoint.port.value);
    in6.sin6_flowinfo = endpoint.flow_info;
    in6.sin6_scope_id = endpoint.scope;
    std::memcpy(&in6.sin6_addr, endpoint.address.raw.data(), sizeof in6.sin6_addr);
    WEFT_ASSERT(sockaddr.size() >= sizeof in6);
    std::memcpy(sockaddr.data(), &in6, sizeof in6);
    return sizeof in6;
  }
  return 0;
}

}  // namespace weft::ucma

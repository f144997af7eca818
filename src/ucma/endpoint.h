// One end's IP address and port, as programs give them to the device and get them back: between the
// kernel's sockaddr forms and weft's own types. Plain values, any thread.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "cm/service_id.h"
#include "weft/types.h"

namespace weft::ucma {

struct Endpoint {
  sa_family_t family = AF_UNSPEC;  ///< AF_INET, AF_INET6; AF_UNSPEC: none
  Gid address;                     ///< IPv4 in its mapped form
  cm::Port port;
  std::uint32_t flow_info = 0, scope = 0;  ///< of AF_INET6, as given

  bool any() const;
  bool multicast() const;
  /// The same family and port, all addresses.
  Endpoint with_any() const;
  Endpoint with_address(const Gid& gid) const;
};

/// Nothing when the family is another or the bytes are too few for it.
std::optional<Endpoint> parse_endpoint(std::span<const std::byte> sockaddr);
template <class Sockaddr>
requires(sizeof(Sockaddr) >=
         sizeof(sockaddr_in6)) std::optional<Endpoint> parse_endpoint(const Sockaddr& sockaddr) {
  return parse_endpoint(std::as_bytes(std::span(&sockaddr, 1)));
}

/// What parse_endpoint() took: sockaddr_in or sockaddr_in6, with the number of bytes of it.
std::size_t emit_endpoint(const Endpoint& endpoint, std::span<std::byte> sockaddr);
template <class Sockaddr>
requires(sizeof(Sockaddr) >= sizeof(sockaddr_in6)) std::size_t
    emit_endpoint(const Endpoint& endpoint, Sockaddr& sockaddr) {
  return emit_endpoint(endpoint, std::as_writable_bytes(std::span(&sockaddr, 1)));
}

}  // namespace weft::ucma

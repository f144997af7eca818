// IP addresses and ports between the kernel's sockaddr forms, as programs give them to the device
// and get them back, and cm's own. Stateless, any thread.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <optional>
#include <span>

#include "cm/socket_address.h"

namespace weft::ucma {

/// Nothing when the family is another or the bytes are too few for it.
std::optional<cm::SocketAddress> parse_sockaddr(std::span<const std::byte> sockaddr);
template <class Sockaddr>
requires(sizeof(Sockaddr) >= sizeof(sockaddr_in6)) std::optional<cm::SocketAddress> parse_sockaddr(
    const Sockaddr& sockaddr) {
  return parse_sockaddr(std::as_bytes(std::span(&sockaddr, 1)));
}

/// The size of the form that the family has.
std::size_t sockaddr_size(cm::Family family);

/// What parse_sockaddr() took: sockaddr_in or sockaddr_in6, with the number of bytes of it.
std::size_t emit_sockaddr(const cm::SocketAddress& address, std::span<std::byte> sockaddr);
template <class Sockaddr>
requires(sizeof(Sockaddr) >= sizeof(sockaddr_in6)) std::size_t
    emit_sockaddr(const cm::SocketAddress& address, Sockaddr& sockaddr) {
  return emit_sockaddr(address, std::as_writable_bytes(std::span(&sockaddr, 1)));
}

}  // namespace weft::ucma

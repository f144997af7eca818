// The names by which processes of one host find each other's connection managers: abstract local
// sockets, one for each bound port and one for each block of connection numbers. Stateless, any
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "cm/message.h"
#include "cm/service_id.h"
#include "host/local_socket.h"
#include "weft/types.h"

namespace weft::cm {

/// The upper half of a connection's number.
using CommIdBlock = Strong<struct CommIdBlockTag, std::uint16_t>;
constexpr CommIdBlock block_of(CommId number) {
  return CommIdBlock(static_cast<std::uint16_t>(number.value >> 16));
}

/// In place of an address: all of a family.
inline constexpr std::string_view kEveryIpv4 = "*4", kEveryIpv6 = "*6";

std::string name_of(PortSpace space, Port port, std::string_view address);
std::string name_of(CommIdBlock block);
/// Where a port of this address may be bound, the likeliest first.
std::array<std::string, 2> names_at(PortSpace space, Port port, const Gid& address);

/// Whoever called is of this user. Whom we call always is (host/local_socket.h).
bool is_trusted(const host::LocalSocket& socket);

}  // namespace weft::cm

#include "cm/names.h"

#include <fmt/format.h>

#include "host/same_user.h"
#include "network/address.h"

namespace weft::cm {

std::string name_of(PortSpace space, Port port, std::string_view address) {
  return fmt::format("weft/cm/{:x}/{}/{}", space.value, port.value, address);
}

std::string name_of(CommIdBlock block) { return fmt::format("weft/cm/block/{:04x}", block.value); }

std::array<std::string, 2> names_at(PortSpace space, Port port, const Gid& address) {
  return {name_of(space, port, network::to_string(address)),
          name_of(space, port, address.is_ipv4() ? kEveryIpv4 : kEveryIpv6)};
}

bool is_trusted(const host::LocalSocket& socket) {
  const auto peer = socket.peer();
  return peer && host::is_same_user(peer->uid, socket.fd());
}

}  // namespace weft::cm

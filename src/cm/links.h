// How a connection manager's core reaches other processes of its host: it takes ports, and opens
// links to whoever has a port. host_exchange.h does it with local sockets; a simulated world has
// tables. Called with the manager's lock held; answers at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "cm/names.h"
#include "cm/packet.h"
#include "cm/service_id.h"
#include "weft/result.h"
#include "weft/types.h"

namespace weft::cm {

using BindingId = Strong<struct BindingIdTag, std::uint32_t>;  ///< 0: none
using LinkId = Strong<struct LinkIdTag, std::uint32_t>;        ///< 0: none

/// In place of a link: the peer is on another host. Nobody is told when it dies.
inline constexpr LinkId kNetworkLink{~std::uint32_t{0}};

/// Where a port is bound.
struct Place {
  enum class Kind : std::uint8_t {
    kAddress,   ///< one address
    kAnyIpv4,   ///< every IPv4 address
    kAnyIpv6,   ///< every IPv6 address, and no IPv4 one
    kAnywhere,  ///< both
  };
  PortSpace space;
  Port port;
  Kind kind = Kind::kAddress;
  Gid address = {};  ///< of kAddress
};

struct Route {
  LinkId link;
  bool fresh;  ///< made now: it leads to whoever has the port now
};

struct Arrival {
  LinkId link;
  /// Nothing: the peer's process is gone, and so is the link. Not told of a process that only
  /// forwards.
  std::optional<Packet> packet;
  std::string called_name;  ///< the name that the peer called; empty: we called it
};

class Links {
 public:
  virtual ~Links() = default;
  /// kBusy: somebody has the port at this place, or at one that overlaps with it. `neighbours` are
  /// the addresses that a bind to all of them must not cut across.
  virtual Result<BindingId> bind(const Place& place, const std::vector<Gid>& neighbours) = 0;
  /// Links that came through it stay.
  virtual void unbind(BindingId binding) = 0;
  /// To whoever has the port at this address. kNotFound: nobody; kBusy: not now. With `fresh`, a
  /// link that exists already is not good enough. Each success is paired with a Release.
  virtual Result<Route> reach(PortSpace space, Port port, const Gid& address, bool fresh) = 0;
  /// Connections with other hosts have numbers of this block, so that whoever receives a message
  /// knows whose it is. For as long as this lives.
  virtual Result<CommIdBlock> claim_block(base::Random& random) = 0;
};

}  // namespace weft::cm

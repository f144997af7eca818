// The control path of a port on a real network: asked when a device is set up, when memberships
// change, or when something went wrong, and by a capture; never for a frame otherwise. The port
// implements it and Port::control() finds it, through all wrappers; it lives as long as the port.
// Any thread.
#pragma once

#include <cstdint>

#include "network/flow.h"
#include "weft/result.h"
#include "weft/types.h"

namespace weft::port {

/// Whether what is sent gets as far as the wire.
enum class LinkState : std::uint8_t {
  kUp,           ///< as far as is known
  kDown,         ///< the interface that has the port's address is down
  kAddressGone,  ///< the machine no longer has the port's address
};

class PortControl {
 public:
  virtual ~PortControl() = default;

  /// From now on receive() hands up what is sent to a multicast group; leave() as often as join().
  virtual Result<void> join(const Gid& group) = 0;
  virtual void leave(const Gid& group) = 0;
  /// From now on each frame brings its traffic class and hop limit. Before, a port may report those
  /// of a few frames only, and the others as unmarked. For datagrams, which show their headers.
  virtual void report_all_headers() = 0;
  /// Asks the machine.
  virtual LinkState link_state() const = 0;
  /// The flow as the frame's headers will tell it: a port may have its own source ports.
  virtual network::Flow flow_on_wire(const network::Flow& flow) = 0;
};

}  // namespace weft::port

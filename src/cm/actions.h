// What a connection manager's core wants done: the driver performs it in order, after the call that
// it comes from. Plain values; one list for each call.
#pragma once

#include <variant>
#include <vector>

#include "cm/links.h"
#include "cm/outcome.h"
#include "cm/packet.h"

namespace weft::cm {

/// By kNetworkLink: as a management datagram, from the device that has the packet's source.
struct Send {
  LinkId link;
  Packet packet;
};
/// A link that reach() gave is not needed any more.
struct Release {
  LinkId link;
};
/// A message of another host was not what it claims to be, and was dropped: count it at the device
/// that has `at`.
struct CountRefused {
  Gid at, claimed_source;
};
/// Tell the identifier's owner.
struct Notify {
  Handle identifier;
  Event event;
};

using Actions = std::vector<std::variant<Send, Release, CountRefused, Notify>>;

}  // namespace weft::cm

// Whether a packet from another host came from where it says. The private data of a question tells
// both IP addresses (service_id.h), and whoever sends writes there what it likes; the IP header of
// the frame is what the network delivered by. The two must agree, as they do for Linux, whose GIDs
// on RoCE are the IP addresses. Stateless, any thread.
#pragma once

#include "cm/packet.h"

namespace weft::cm {

/// False: nobody may believe it. The addresses of the packet are those of the frame: of two single
/// hosts, and of loopback both or neither.
bool is_credible(const Packet& packet);

}  // namespace weft::cm

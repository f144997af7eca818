// Messages between hosts: management datagrams from and to queue pair 1. Whichever process of the
// host receives one forwards it to the process that it is for, itself included, through that one's
// local socket: a question to whoever has the port, anything else to whoever has the connection's
// number. What is for nobody is answered at once. The process that has a connection sends its
// messages itself. Any thread.
#pragma once

#include "cm/packet.h"
#include "mad/gsi.h"

namespace weft::cm {

enum class Forwarded { kTaken, kNobody, kNotNow };
/// To the process of this host that the packet is for. Never waits; what one thread forwards to one
/// process is received in that order. kNobody: no process of this user is the one.
Forwarded forward_locally(const Packet& packet);

/// False: the packet's source is not on the network, or it has no room now.
bool send_to_network(mad::Gsi& gsi, const Packet& packet);

/// Takes the connection manager's datagrams from now on.
void receive_from_network(mad::Agents& agents);

}  // namespace weft::cm

// Messages between hosts: management datagrams from and to queue pair 1. Whichever process of the
// host receives one hands it to the process that it is for, itself included, through that one's
// local socket: a question to whoever has the port, anything else to whoever has the connection's
// number. What is for nobody is answered at once. The process that has a connection sends its
// messages itself. Any thread.
#pragma once

#include "cm/packet.h"
#include "verbs/controller.h"
#include "verbs/management.h"

namespace weft::cm {

enum class HandedOver { kTaken, kNobody, kNotNow };
/// Never waits. What one thread hands to one process is received in that order. kNobody: no process
/// of this user is the one that the packet is for.
HandedOver hand_over(const Packet& packet);

/// False: the device is not on the network, or it has no room now.
bool send_to_network(verbs::Controller& controller, const Packet& packet);

/// Takes what arrives for queue pair 1 of this process's devices from now on. Once.
void receive_from_network();

}  // namespace weft::cm

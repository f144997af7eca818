// Keeps what arrives at an interface from the kernel's own stack, while packet sockets go on to see
// it: a small program at the interface's ingress (tcx), which the kernel takes away with the last
// descriptor, also when the process dies. Neighbour discovery and ARP pass, since the kernel goes
// on to find the way for packets that leave. Plain function, any thread; the descriptor is the
// caller's.
#pragma once

#include "host/fd.h"
#include "port/packet_socket.h"
#include "weft/result.h"

namespace weft::port {

/// kNotPermitted names the capabilities; kNotSupported: the kernel is older than Linux 6.6.
Result<host::Fd> close_kernel_gate(const RawInterface& interface);

}  // namespace weft::port

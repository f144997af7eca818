// The unreliable datagram: one frame is one message, to any queue pair, guarded by a Q_Key. The
// receive buffer begins with 40 bytes for the global header. Requester under the queue pair's
// send_lock, responder under its recv_lock.
#pragma once

#include "network/frame.h"
#include "queue/queue_pair.h"
#include "wire/ipv6.h"
#include "wire/packet.h"

namespace weft::transport {

struct UdRequester {
  Psn next_new;
  std::uint32_t cursor = 0;  ///< next element to send: send queue index
  Nanoseconds delay_until = kNever;
};

void start(UdRequester& rq, const queue::QueuePair& qp);
bool next_request(UdRequester& rq, queue::QueuePair& qp, Nanoseconds now, network::OutFrame& frame);
/// The port took every frame that was built: their elements complete.
void on_sent(UdRequester& rq, queue::QueuePair& qp);
/// The payload of a frame of this element could not be read: the memory has gone.
void on_fault(UdRequester& rq, queue::QueuePair& qp, std::uint32_t element);
void stop(UdRequester& rq, queue::QueuePair& qp);

/// `grh`: the network header of the frame, in the form that the receive buffer shows.
void on_datagram(queue::QueuePair& qp, const wire::Packet& packet, const wire::GrhBytes& grh);

}  // namespace weft::transport

// The raw datagram: one message is one packet or one Ethernet frame, whole and unchanged. Nothing
// is acknowledged; a send completes when the port took it. Requester under the queue pair's
// send_lock, receiving under its recv_lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "queue/queue_pair.h"
#include "wire/raw_packet.h"

namespace weft::transport {

struct RawRequester {
  std::uint32_t cursor = 0;  ///< next element to send: send queue index
  Nanoseconds delay_until = kNever;
};

/// A message that was copied out.
struct RawMessage {
  std::uint32_t element = 0;  ///< send queue index
  std::size_t bytes = 0;
};

void start(RawRequester& rq, const queue::QueuePair& qp);
/// Copies the next message into `room`. Nothing: there is none, or it failed; one that is longer
/// than the room fails.
std::optional<RawMessage> next_message(RawRequester& rq, queue::QueuePair& qp, Nanoseconds now,
                                       std::span<std::byte> room);
/// The port took, or passed over, every message that was copied out: their elements complete.
void on_sent(RawRequester& rq, queue::QueuePair& qp);
/// The port took none from this element on: they are offered again.
void on_busy(RawRequester& rq, queue::QueuePair& qp, std::uint32_t element);
void stop(RawRequester& rq, queue::QueuePair& qp);

/// A packet or frame came for this queue pair. Without a receive buffer it is dropped and counted.
void on_raw(queue::QueuePair& qp, const wire::RawPacket& headers,
            std::span<const std::byte> message);

}  // namespace weft::transport

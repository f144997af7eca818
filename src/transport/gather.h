// Gather lists against memory: the stretch of a message that one frame carries, found in the list,
// checked key by key and byte by byte. Stateless; the caller holds the lock of the queue that owns
// the list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "network/frame.h"
#include "queue/queue_pair.h"

namespace weft::transport {

/// Adds message bytes [offset, offset + n) of a send element to the frame, as views. Their keys are
/// kept (memory::Flight::keep) until the caller has sent the frame; it has room for
/// network::kMaxSge more. Anything but kSuccess is the status with which the element fails; the
/// frame is then not to be sent.
CompletionStatus gather(queue::QueuePair& qp, const queue::SendWqe& wqe, std::uint32_t offset,
                        std::uint32_t n, network::OutFrame& frame);

/// Adds one contiguous, checked place to the frame as views; false on a fault.
bool add_place(network::OutFrame& frame, memory::Place place, std::uint64_t n);

}  // namespace weft::transport

// The send queue as the unreliable services see it: an element completes when the port took its
// last frame. Bind, invalidate and delay are executed when everything before them is complete.
// Under the queue pair's send_lock.
#pragma once

#include "queue/queue_pair.h"

namespace weft::transport {

/// True: the element at the cursor is a message that may go out now. Local elements that are due
/// are executed on the way, and the cursor moves past them.
bool may_transmit(queue::QueuePair& qp, std::uint32_t& cursor, Nanoseconds now,
                  Nanoseconds& delay_until);

/// Completes every element before the cursor; one behind it that failed stops the queue.
void retire_sent(queue::QueuePair& qp, std::uint32_t cursor);

/// The payload of this element could not be read: what is before it completes, it fails.
void fail_element(queue::QueuePair& qp, std::uint32_t element);

/// The front element fails. An unreliable send queue stops at an error of its own (SQE) while
/// receiving goes on.
void stop_send_queue(queue::QueuePair& qp, CompletionStatus status);

}  // namespace weft::transport

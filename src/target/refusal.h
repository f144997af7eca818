// Why a request is not executed at its target, in the words of no carrier: each maps it to what its
// peer is told (a NAK, an answer in a ring, the status of the initiator's own completion) and to
// what becomes of the queue pair. Stateless.
#pragma once

#include <cstdint>

#include "queue/queue_pair.h"

namespace weft::target {

enum class Refusal : std::uint8_t {
  kAccess,     ///< the key does not allow it, or the memory has gone
  kInvalid,    ///< the request breaks a rule, or is longer than the receive buffer
  kOperation,  ///< the receive buffer's own list cannot be used
};

/// Counts the refusal. On a reliable queue pair it also raises the event that the specification
/// asks for; a message of an unreliable one counts as dropped. The carrier does the rest.
void report(queue::QueuePair& qp, Refusal refusal);

}  // namespace weft::target

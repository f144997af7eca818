// Channel semantics at the target: how a message that has arrived becomes known to the program.
// Every carrier comes here when the bytes lie in the receive buffer, or could not be put there. The
// caller holds the queue pair's recv_lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "queue/scatter.h"
#include "target/receive.h"
#include "target/refusal.h"
#include "wire/ipv6.h"

namespace weft::target {

/// What a message says of itself, besides its bytes.
struct MessageInfo {
  std::uint32_t bytes = 0;
  Qpn source_qp{};
  bool solicited = false;
  bool has_immediate = false;
  bool invalidates = false;
  std::uint32_t immediate = 0;  ///< or the key to invalidate
};

/// Invalidates the key that a whole message names, if it names one, and completes its buffer, which
/// is null afterwards. A refusal has completed the buffer, too. announce() is called before a
/// completion that tells of success: a carrier whose sender waits for the news gives it there, or
/// the program's reply might overtake it.
template <class Announce>
std::optional<Refusal> deliver(queue::QueuePair& qp, queue::ReceiveWqe*& buffer,
                               const MessageInfo& message, Announce announce) {
  ReceiveOutcome outcome;
  outcome.byte_count = message.bytes;
  outcome.solicited = message.solicited;
  outcome.source_qp = message.source_qp;
  outcome.has_immediate = message.has_immediate;
  outcome.has_invalidate = message.invalidates;
  if (message.invalidates) {
    outcome.invalidated_key = RemoteKey(message.immediate);
    if (!qp.shared->keys->invalidate(outcome.invalidated_key, qp.pd, qp.qpn)) {
      complete_receive(qp, std::exchange(buffer, nullptr),
                       {.status = CompletionStatus::kRemoteInvalidRequest});
      return Refusal::kAccess;
    }
  } else {
    outcome.immediate = message.immediate;
  }
  announce();
  complete_receive(qp, std::exchange(buffer, nullptr), outcome);
  return {};
}
inline std::optional<Refusal> deliver(queue::QueuePair& qp, queue::ReceiveWqe*& buffer,
                                      const MessageInfo& message) {
  return deliver(qp, buffer, message, [] {});
}

/// Completes a buffer for a write with immediate, whose bytes have landed elsewhere.
void notify(queue::QueuePair& qp, queue::ReceiveWqe* buffer, const MessageInfo& message);

/// How a message is refused that its receive buffer did not take: see queue::scatter().
constexpr Refusal refusal_of(CompletionStatus receive) {
  return receive == CompletionStatus::kLocalLengthError ? Refusal::kInvalid : Refusal::kOperation;
}
/// The same, and completes the buffer with that status.
inline Refusal refuse_receive(queue::QueuePair& qp, queue::ReceiveWqe*& buffer,
                              CompletionStatus status) {
  complete_receive(qp, std::exchange(buffer, nullptr), {.status = status});
  return refusal_of(status);
}

/// A buffer for a datagram with this Q_Key; nullptr: the queue pair takes none now, which is
/// counted.
queue::ReceiveWqe* take_for_datagram(queue::QueuePair& qp, QKey qkey);

/// Puts a datagram into the buffer behind its 40 bytes of global header, and completes it.
/// put(buffer, offset) writes the message's own bytes there, and gives the buffer's status.
template <class Put>
void deliver_datagram(queue::QueuePair& qp, queue::ReceiveWqe* buffer, const MessageInfo& message,
                      const wire::GrhBytes& grh, Put put) {
  ReceiveOutcome outcome;
  outcome.status = queue::scatter(qp, buffer->sges(), 0, grh);
  if (outcome.status == CompletionStatus::kSuccess) outcome.status = put(*buffer, grh.size());
  outcome.byte_count = static_cast<std::uint32_t>(grh.size() + message.bytes);
  outcome.source_qp = message.source_qp;
  outcome.solicited = message.solicited;
  outcome.has_grh = true;
  outcome.has_immediate = message.has_immediate;
  outcome.immediate = message.immediate;
  complete_receive(qp, buffer, outcome);
}

}  // namespace weft::target

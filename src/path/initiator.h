// What all paths in which the initiator does the work have in common: how an element of the send
// queue ends, how a peer that is not there or not ready is waited for, and the work that never
// leaves the queue pair. Under the queue pair's send_lock.
#pragma once

#include <cstdint>
#include <optional>

#include "queue/path.h"
#include "queue/queue_pair.h"
#include "target/refusal.h"

namespace weft::path {

/// What became of an element.
enum class Step : std::uint8_t {
  kNext,  ///< completed, or on its way
  kMore,  ///< a part of it is done, the budget ended
  kWait,  ///< nothing can be done before a time that the scheduler knows, or before an answer
};

/// What the initiator of a request learns when its target refuses it.
constexpr CompletionStatus status_of(target::Refusal refusal) {
  switch (refusal) {
    case target::Refusal::kAccess:
      return CompletionStatus::kRemoteAccessError;
    case target::Refusal::kInvalid:
      return CompletionStatus::kRemoteInvalidRequest;
    case target::Refusal::kOperation:
      break;
  }
  return CompletionStatus::kRemoteOperationError;
}

class Initiator : public queue::Path {
 public:
  void start_sending(queue::QueuePair& qp) override { retries_rnr_ = qp.attributes.rnr_retry; }

 protected:
  explicit Initiator(const queue::QueuePair& qp)
      : datagram_(qp.service == Service::kReliableDatagram),
        reliable_(datagram_ || qp.service == Service::kReliableConnection) {}

  /// The front element is gone, and the next one begins.
  Step next(const queue::QueuePair& qp);
  /// The front element is complete.
  Step done(queue::QueuePair& qp, const queue::SendWqe& wqe);
  /// The front element fails. A reliable connection dies of it, an unreliable queue pair stops
  /// sending, and a reliable datagram one goes on.
  Step fail(queue::QueuePair& qp, CompletionStatus status);
  /// An unreliable message that nobody takes was sent all the same, if it could be read at all.
  Step complete_dropped(queue::QueuePair& qp, queue::SendWqe& wqe);
  /// Asked before a request is refused: how it fails if it carries bytes that cannot be read. Then
  /// it is never sent, and the peer learns nothing of it.
  std::optional<CompletionStatus> own_fault(queue::QueuePair& qp, const queue::SendWqe& wqe) const;
  Step wait_until(queue::QueuePair& qp, Nanoseconds when);
  /// No peer: a reliable queue pair tries for as many time-outs as it has retries, each as short as
  /// it was asked for: on one host nobody is waited for who is known to be dead.
  Step no_peer(queue::QueuePair& qp, queue::SendWqe& wqe);
  /// The peer of a reliable queue pair has no receive buffer.
  Step not_ready(queue::QueuePair& qp, std::uint8_t rnr_timer);
  Step delay(queue::QueuePair& qp, queue::SendWqe& wqe);
  /// True while a pause that wait_until() began lasts.
  bool pauses(queue::QueuePair& qp);

  /// Tells what the entry says about the key, the peer's own or as it shows it; null: there is
  /// none.
  static void show_key(queue::PeerView& view, const memory::KeyEntry* entry, RemoteKey key,
                       PdId domain);

  // For fast_post(), where every instruction counts.
  /// The writes and reads that it is for: one element, up to 64 KiB.
  static bool is_small(SendOp op, const SendRequest& request) {
    return request.op == op && request.sges.size() == 1 && request.sges.front().length <= 64 * 1024;
  }
  [[gnu::always_inline]] static void fast_complete(queue::QueuePair& qp, const SendRequest& request,
                                                   CompletionOp op) {
    if (!has(request.flags, SendFlags::kSignaled) && !qp.signal_all) return;
    qp.send_cq->emplace(false, [&](Completion& completion) {
      completion = {};
      completion.wr_id = request.wr_id;
      completion.op = op;
      completion.byte_count = request.sges.front().length;
      completion.qpn = qp.qpn;
    });
  }
  void tell_drained(queue::QueuePair& qp);
  void forget_progress();

  std::uint32_t offset_ = 0;  ///< bytes of the element in work that are done
  std::uint8_t retries_rnr_ = 0;
  const bool datagram_;  ///< of the reliable kind: each request names its peer
  const bool reliable_;
  bool started_ = false;  ///< the element in work has its name, or its delay runs
  bool told_drained_ = false;
  Nanoseconds waiting_since_ = 0;  ///< for a peer that is not there
  Nanoseconds not_before_ = 0;     ///< RNR pause, delay, or the next look for the peer
};

}  // namespace weft::path

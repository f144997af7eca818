// Receive buffers at the target: taken for a message that arrives, given back with a completion.
// The caller holds the queue pair's recv_lock.
#pragma once

#include <cstdint>

#include "base/fast_paths.h"
#include "queue/queue_pair.h"

namespace weft::target {

/// What the completion of a receive buffer says.
struct ReceiveOutcome {
  CompletionStatus status = CompletionStatus::kSuccess;
  CompletionOp op = CompletionOp::kReceive;
  std::uint32_t byte_count = 0;
  Qpn source_qp{};
  bool solicited = false;
  bool has_grh = false;
  bool has_immediate = false;
  std::uint32_t immediate = 0;
  bool has_invalidate = false;
  RemoteKey invalidated_key{};
};

/// Takes a receive buffer and tells when a shared queue ran low. nullptr: receiver not ready.
queue::ReceiveWqe* take_receive(queue::QueuePair& qp);
/// The fast path for a message that is there as a whole: see ReceiveQueue::take_single().
bool take_single_of_many(queue::QueuePair& qp, queue::ReceiveQueue::Single* out);
inline bool take_single(queue::QueuePair& qp, queue::ReceiveQueue::Single* out) {
  if (!base::fast_paths.on()) [[unlikely]]
    return false;
  if (qp.shared_receive != nullptr) return take_single_of_many(qp, out);
  return qp.rq->take_single(out);
}

/// Gives the buffer back to its queue, and completes it.
void complete_receive(queue::QueuePair& qp, queue::ReceiveWqe* wqe, const ReceiveOutcome& outcome);
/// The same for a buffer that take_single() gave.
inline void complete_receive(queue::QueuePair& qp, std::uint64_t wr_id,
                             const ReceiveOutcome& outcome) {
  qp.recv_cq->emplace(outcome.solicited, [&](Completion& completion) {
    completion.wr_id = wr_id;
    completion.status = outcome.status;
    completion.op = outcome.op;
    completion.has_immediate = outcome.has_immediate;
    completion.has_invalidate = outcome.has_invalidate;
    completion.has_grh = outcome.has_grh;
    completion.byte_count = outcome.byte_count;
    completion.immediate = outcome.immediate;
    completion.invalidated_key = outcome.invalidated_key;
    completion.qpn = qp.qpn;
    completion.source_qp = outcome.source_qp;
  });
}

/// Gives back the buffer of an unfinished message: flushed, or in reset without a word. nullptr is
/// allowed.
void return_receive(queue::QueuePair& qp, queue::ReceiveWqe* wqe);

}  // namespace weft::target

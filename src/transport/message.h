// Small facts about messages and frames that all services share. Stateless.
#pragma once

#include <cstdint>

#include "queue/queue_pair.h"
#include "transport/frame.h"
#include "wire/opcode.h"

namespace weft::transport {

/// Frames of a message: a zero-length one still takes a frame.
constexpr std::uint32_t frames_of(std::uint32_t length, std::uint32_t mtu) {
  return length <= mtu ? 1 : (length - 1) / mtu + 1;
}

constexpr wire::Position position_of(bool first, bool last) {
  if (first) return last ? wire::Position::kOnly : wire::Position::kFirst;
  return last ? wire::Position::kLast : wire::Position::kMiddle;
}

/// Operations that never leave the queue pair.
constexpr bool is_local(SendOp op) { return op >= SendOp::kBind; }
constexpr bool is_read(SendOp op) { return op == SendOp::kRead; }
constexpr bool is_atomic(SendOp op) {
  return op >= SendOp::kCompareSwap && op <= SendOp::kAtomicWrite;
}
/// Operations that are finished by an answer of their own, not by an acknowledgement.
constexpr bool is_answered(SendOp op) { return is_read(op) || is_atomic(op); }

/// First and Middle carry exactly the path MTU, Last something, Only anything up to it.
constexpr bool payload_fits(wire::Position position, std::size_t payload, std::uint32_t mtu) {
  switch (position) {
    case wire::Position::kFirst:
    case wire::Position::kMiddle:
      return payload == mtu;
    case wire::Position::kLast:
      return payload >= 1 && payload <= mtu;
    case wire::Position::kOnly:
      return payload <= mtu;
  }
  return false;
}

/// A receive completion. Called with the recv_lock held; gives the buffer back to its queue.
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

/// Takes a receive buffer and tells when a shared queue ran low. nullptr: receiver not ready.
queue::ReceiveWqe* take_receive(queue::QueuePair& qp);
/// The same for a message that is there as a whole: see ReceiveQueue::take_single().
bool take_single_of_many(queue::QueuePair& qp, queue::ReceiveQueue::Single* out);
inline bool take_single(queue::QueuePair& qp, queue::ReceiveQueue::Single* out) {
  if (qp.shared_receive != nullptr) return take_single_of_many(qp, out);
  return qp.rq->take_single(out);
}

/// Builds the frame that carries message bytes from `offset` on: a send or a write of a connected
/// service, with the headers that its place in the message asks for. Anything but kSuccess is the
/// status with which the element fails. `last` tells whether the frame ends the message.
CompletionStatus build_message_frame(queue::QueuePair& qp, const queue::SendWqe& wqe,
                                     wire::Service service, std::uint32_t offset, Psn psn,
                                     OutFrame& frame, bool* last);

/// Starts the headers of any frame of a connected service.
inline void begin_frame(const queue::QueuePair& qp, Psn psn, OutFrame& frame) {
  frame.headers.bth = {};
  frame.headers.bth.dest_qp = qp.attributes.remote_qpn;
  frame.headers.bth.psn = psn;
}

/// Executes bind or local invalidate; the status with which the element completes. No Flight word
/// may be published by this thread.
CompletionStatus run_local(queue::QueuePair& qp, queue::SendWqe& wqe);

}  // namespace weft::transport

#include "transport/local_work.h"

#include "transport/message.h"

namespace weft::transport {
namespace {

/// False: it has to wait, or it failed.
bool run_front(queue::QueuePair& qp, Nanoseconds now, Nanoseconds& delay_until) {
  queue::SendWqe& wqe = qp.sq.front();
  if (wqe.op == SendOp::kDelay) {
    if (!wqe.started) {
      wqe.started = true;
      delay_until = now + wqe.delay_ns;
    }
    if (now < delay_until) return false;
    delay_until = kNever;
  } else {
    const CompletionStatus status = run_local(qp, wqe);
    if (status != CompletionStatus::kSuccess) {
      stop_send_queue(qp, status);
      return false;
    }
  }
  complete_front(qp, CompletionStatus::kSuccess, 0);
  return true;
}

}  // namespace

bool may_transmit(queue::QueuePair& qp, std::uint32_t& cursor, Nanoseconds now,
                  Nanoseconds& delay_until) {
  while (qp.can_send() && cursor != qp.sq.tail()) {
    queue::SendWqe& wqe = qp.sq.at(cursor);
    if (wqe.finished) return false;  // it failed and waits for its turn to say so
    const bool draining = qp.state.load(std::memory_order_relaxed) == QpState::kSendQueueDrained;
    if (draining && !wqe.started) return false;
    if (!is_local(wqe.op)) return true;
    if (cursor != qp.sq.head() || !run_front(qp, now, delay_until)) return false;
    ++cursor;
  }
  return false;
}

void retire_sent(queue::QueuePair& qp, std::uint32_t cursor) {
  // Signed: behind a failed front element the cursor is left standing until the flush.
  while (!qp.sq.empty() && static_cast<std::int32_t>(cursor - qp.sq.head()) > 0) {
    complete_front(qp, CompletionStatus::kSuccess, qp.sq.front().length);
  }
  if (!qp.sq.empty() && qp.sq.front().finished) stop_send_queue(qp, qp.sq.front().status);
}

void fail_element(queue::QueuePair& qp, std::uint32_t element) {
  if (!qp.can_send() || element - qp.sq.head() >= qp.sq.tail() - qp.sq.head()) return;
  queue::SendWqe& wqe = qp.sq.at(element);
  wqe.finished = true;
  wqe.status = CompletionStatus::kLocalProtectionError;
  retire_sent(qp, element);
}

void stop_send_queue(queue::QueuePair& qp, CompletionStatus status) {
  complete_front(qp, status, 0);
  QpState expected = QpState::kReadyToSend;
  if (qp.state.compare_exchange_strong(expected, QpState::kSendQueueError,
                                       std::memory_order_acq_rel)) {
    qp.shared->scheduler->run_soon(qp);
  } else {
    queue::fail_queue_pair(qp);
  }
}

}  // namespace weft::transport

#include "target/receive.h"

namespace weft::target {
namespace {

void check_limit(queue::QueuePair& qp) {
  if (qp.shared_receive != nullptr && qp.shared_receive->limit_reached()) {
    qp.shared->events->on_limit_reached(*qp.shared_receive);
  }
}

}  // namespace

queue::ReceiveWqe* take_receive(queue::QueuePair& qp) {
  queue::ReceiveWqe* wqe = qp.receives().take();
  check_limit(qp);
  return wqe;
}

bool take_single_of_many(queue::QueuePair& qp, queue::ReceiveQueue::Single* out) {
  if (!qp.shared_receive->take_single(out)) return false;
  check_limit(qp);
  return true;
}

void complete_receive(queue::QueuePair& qp, queue::ReceiveWqe* wqe, const ReceiveOutcome& outcome) {
  const std::uint64_t wr_id = wqe->wr_id;
  qp.receives().release(wqe);
  complete_receive(qp, wr_id, outcome);
}

void return_receive(queue::QueuePair& qp, queue::ReceiveWqe* wqe) {
  if (wqe == nullptr) return;
  if (qp.state.load(std::memory_order_relaxed) == QpState::kReset) {
    qp.receives().release(wqe);
  } else {
    complete_receive(qp, wqe, {.status = CompletionStatus::kFlushed});
  }
}

}  // namespace weft::target

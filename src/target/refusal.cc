#include "target/refusal.h"

namespace weft::target {

void report(queue::QueuePair& qp, Refusal refusal) {
  if (refusal == Refusal::kAccess) qp.count(obs::Counter::kRefusedAccesses);
  // Only the request fails, and its sender is told.
  if (qp.service == Service::kReliableDatagram) return;
  if (qp.service != Service::kReliableConnection) {
    qp.count(obs::Counter::kDroppedMessages);
    return;
  }
  switch (refusal) {
    case Refusal::kAccess:
      return qp.shared->events->on_event(qp, queue::QpEvent::kAccessError);
    case Refusal::kInvalid:
      return qp.shared->events->on_event(qp, queue::QpEvent::kRequestError);
    case Refusal::kOperation:
      return;  // the completion of the receive buffer tells
  }
}

}  // namespace weft::target

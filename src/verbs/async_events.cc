#include "verbs/async_events.h"

#include <mutex>

#include "verbs/srq_object.h"

namespace weft::verbs {
namespace {

AsyncEventKind kind_of(queue::QpEvent event) {
  switch (event) {
    case queue::QpEvent::kRequestError:
      return AsyncEventKind::kQueuePairRequestError;
    case queue::QpEvent::kAccessError:
      return AsyncEventKind::kQueuePairAccessError;
    case queue::QpEvent::kCommEstablished:
      return AsyncEventKind::kCommunicationEstablished;
    case queue::QpEvent::kSendQueueDrained:
      return AsyncEventKind::kSendQueueDrained;
    case queue::QpEvent::kLastReceiveReached:
      break;
  }
  return AsyncEventKind::kLastReceiveReached;
}

}  // namespace

void AsyncEvents::push(const AsyncEvent& event) {
  std::shared_ptr<EventQueue> queue = default_;
  {
    const std::lock_guard guard(lock_);
    const auto route = routes_.find({event.qpn.value, event.number});
    if (route != routes_.end()) queue = route->second;
  }
  if (!queue->push(event)) counters_.add(obs::Counter::kAsyncEventsDropped);
}

void AsyncEvents::on_event(queue::QueuePair& qp, queue::QpEvent event) {
  push({kind_of(event), qp.qpn});
}

void AsyncEvents::on_limit_reached(queue::ReceiveQueue& srq) {
  push({AsyncEventKind::kSharedReceiveLimitReached, Qpn(), SrqObject::of(srq).number});
}

void AsyncEvents::on_completion_overrun(std::uint32_t number) {
  counters_.add(obs::Counter::kCompletionOverruns);
  push({AsyncEventKind::kCompletionQueueOverrun, Qpn(), number});
}

void AsyncEvents::on_unmapped_page(std::uint64_t address) {
  push({AsyncEventKind::kUnmappedPage, Qpn(), 0, address});
}

std::optional<AsyncEvent> AsyncEvents::next() {
  if (inherited()) return {};
  return default_->next();
}

std::shared_ptr<EventQueue> AsyncEvents::claim() {
  const std::lock_guard guard(lock_);
  return std::exchange(claimed_, true) ? std::make_shared<EventQueue>() : default_;
}

void AsyncEvents::route(Qpn qpn, std::uint32_t number, std::shared_ptr<EventQueue> queue) {
  if (queue == default_) return;  // it gets them without a route
  const std::lock_guard guard(lock_);
  routes_[{qpn.value, number}] = std::move(queue);
}

void AsyncEvents::forget(Qpn qpn, std::uint32_t number) {
  if (inherited()) return;
  std::shared_ptr<EventQueue> queue = default_;
  {
    const std::lock_guard guard(lock_);
    const auto route = routes_.find({qpn.value, number});
    if (route != routes_.end()) {
      queue = route->second;
      routes_.erase(route);
    }
  }
  queue->forget(qpn, number);
}

}  // namespace weft::verbs

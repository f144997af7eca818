#include "verbs/event_queue.h"

#include <mutex>

#include "verbs/limits.h"

namespace weft::verbs {

bool EventQueue::push(const AsyncEvent& event) {
  const std::lock_guard guard(lock_);
  if (events_.size() >= kMaxWaitingEvents) return false;
  events_.push_back(event);
  signal_.raise();
  return true;
}

std::optional<AsyncEvent> EventQueue::next() {
  const std::lock_guard guard(lock_);
  if (events_.empty()) return {};
  const AsyncEvent event = events_.front();
  events_.pop_front();
  if (events_.empty()) signal_.clear();
  return event;
}

void EventQueue::forget(Qpn qpn, std::uint32_t number) {
  const std::lock_guard guard(lock_);
  const std::size_t gone = std::erase_if(
      events_, [&](const AsyncEvent& event) { return event.qpn == qpn && event.number == number; });
  if (gone > 0 && events_.empty()) signal_.clear();
}

Result<int> EventQueue::fd() {
  const std::lock_guard guard(lock_);
  if (signal_.fd() >= 0) return signal_.fd();
  return signal_.open(!events_.empty());
}

}  // namespace weft::verbs

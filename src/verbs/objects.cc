#include "verbs/objects.h"

#include <mutex>
#include <new>
#include <utility>

#include "base/this_thread.h"

namespace weft::verbs {

std::shared_ptr<const QpParents> PdObject::share(QpParents parents) {
  const std::lock_guard guard(parents_lock);
  auto same = last_parents.lock();
  if (same != nullptr && *same == parents) return same;
  try {
    same = std::make_shared<const QpParents>(std::move(parents));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  last_parents = same;
  return same;
}

CompChannelObject::~CompChannelObject() {
  if (controller != nullptr) controller->waiting().forget(*this);
}

void CompChannelObject::push(std::uint32_t cq_number) {
  const std::lock_guard guard(lock);
  events.push_back(cq_number);
  // Who makes progress to find an event takes it itself: no need to tell it.
  if (fetcher == base::this_thread()) return;
  signal.raise();
  raised = true;
}

std::optional<std::uint32_t> CompChannelObject::pop() {
  const std::lock_guard guard(lock);
  if (events.empty()) return {};
  const std::uint32_t number = events.front();
  events.pop_front();
  keep_signal_in_step();
  return number;
}

void CompChannelObject::keep_signal_in_step() {
  if (events.empty() == !raised) return;
  raised = !raised;
  if (raised) {
    signal.raise();
  } else {
    signal.clear();
  }
}

void CompChannelObject::forget(std::uint32_t cq_number) {
  const std::lock_guard guard(lock);
  std::erase(events, cq_number);
  keep_signal_in_step();
}

CompChannelObject::Fetch::Fetch(CompChannelObject& channel) : channel_(channel) {
  const std::lock_guard guard(channel_.lock);
  if (channel_.fetcher == nullptr) channel_.fetcher = base::this_thread();
}

CompChannelObject::Fetch::~Fetch() {
  const std::lock_guard guard(channel_.lock);
  if (channel_.fetcher != base::this_thread()) return;
  channel_.fetcher = nullptr;
  // One is taken in a moment; more of them are for others, too.
  if (channel_.events.size() > 1) channel_.keep_signal_in_step();
}

bool CompChannelObject::has_events() {
  const std::lock_guard guard(lock);
  return !events.empty();
}

CqObject::CqObject(std::shared_ptr<Controller> owner, std::uint32_t capacity,
                   std::shared_ptr<CompChannelObject> where)
    : controller(std::move(owner)),
      channel(std::move(where)),
      number(controller->new_number()),
      queue(capacity, this) {}

CqObject::~CqObject() {
  if (channel != nullptr && queue.armed()) count_fired();
}

void CqObject::request_notify(bool solicited_only) {
  if (channel == nullptr || controller->inherited()) {
    queue.request_notify(solicited_only);
    return;
  }
  // Counted before, since the event may come at once, and once only.
  channel->armed.fetch_add(1, std::memory_order_relaxed);
  controller->engine().count_armed();
  if (!queue.request_notify(solicited_only)) count_fired();
  controller->waiting().on_arm(*channel);
}

void CqObject::count_fired() {
  channel->armed.fetch_sub(1, std::memory_order_relaxed);
  controller->engine().count_fired();
}

void CqObject::on_completion_event(queue::CompletionQueue&) {
  if (channel == nullptr) return;
  count_fired();
  channel->push(number);
}

void CqObject::on_completion_overrun(queue::CompletionQueue&) {
  controller->events().on_completion_overrun(number);
}

}  // namespace weft::verbs

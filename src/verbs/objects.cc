#include "verbs/objects.h"

#include <mutex>
#include <new>
#include <utility>

namespace weft::verbs {

std::shared_ptr<const QpGround> PdObject::share(QpGround ground) {
  const std::lock_guard guard(ground_lock);
  auto same = last_ground.lock();
  if (same != nullptr && *same == ground) return same;
  try {
    same = std::make_shared<const QpGround>(std::move(ground));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  last_ground = same;
  return same;
}

void ChannelObject::push(std::uint32_t cq_number) {
  const std::lock_guard guard(lock);
  events.push_back(cq_number);
  signal.raise();
}

std::optional<std::uint32_t> ChannelObject::pop() {
  const std::lock_guard guard(lock);
  if (events.empty()) return {};
  const std::uint32_t number = events.front();
  events.pop_front();
  if (events.empty()) signal.clear();
  return number;
}

void ChannelObject::forget(std::uint32_t cq_number) {
  const std::lock_guard guard(lock);
  if (std::erase(events, cq_number) > 0 && events.empty()) signal.clear();
}

CqObject::CqObject(std::shared_ptr<Controller> owner, std::uint32_t capacity,
                   std::shared_ptr<ChannelObject> where)
    : controller(std::move(owner)),
      channel(std::move(where)),
      number(controller->new_number()),
      queue(capacity, this) {}

void CqObject::on_completion_event(queue::CompletionQueue&) {
  if (channel != nullptr) channel->push(number);
}

void CqObject::on_completion_overrun(queue::CompletionQueue&) {
  controller->on_completion_overrun(number);
}

}  // namespace weft::verbs

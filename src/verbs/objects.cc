#include "verbs/objects.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

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

ChannelObject::~ChannelObject() {
  if (fd >= 0) close(fd);
}

void ChannelObject::push(std::uint32_t cq_number) {
  const std::lock_guard guard(lock);
  events.push_back(cq_number);
  eventfd_write(fd, 1);
}

std::optional<std::uint32_t> ChannelObject::pop() {
  const std::lock_guard guard(lock);
  if (events.empty()) return {};
  const std::uint32_t number = events.front();
  events.pop_front();
  eventfd_t value;
  eventfd_read(fd, &value);  // a semaphore: one event, one count
  return number;
}

std::optional<std::uint32_t> ChannelObject::pop_counted() {
  const std::lock_guard guard(lock);
  if (events.empty()) return {};
  const std::uint32_t number = events.front();
  events.pop_front();
  return number;
}

void ChannelObject::forget(std::uint32_t cq_number) {
  const std::lock_guard guard(lock);
  for (std::size_t gone = std::erase(events, cq_number); gone > 0; --gone) {
    pollfd counted{fd, POLLIN, 0};  // whoever waits in read() may have taken the count
    eventfd_t value;
    if (::poll(&counted, 1, 0) == 1) eventfd_read(fd, &value);
  }
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

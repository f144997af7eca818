#include "verbs/event_queue.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "verbs/limits.h"

namespace weft::verbs {

EventQueue::~EventQueue() {
  if (fd_ >= 0) close(fd_);
}

bool EventQueue::push(const AsyncEvent& event) {
  const std::lock_guard guard(lock_);
  if (events_.size() >= kMaxWaitingEvents) return false;
  events_.push_back(event);
  if (fd_ >= 0) eventfd_write(fd_, 1);
  return true;
}

std::optional<AsyncEvent> EventQueue::next() {
  const std::lock_guard guard(lock_);
  if (events_.empty()) return {};
  const AsyncEvent event = events_.front();
  events_.pop_front();
  if (fd_ >= 0) {
    eventfd_t value;
    eventfd_read(fd_, &value);  // a semaphore: one event, one count
  }
  return event;
}

std::optional<AsyncEvent> EventQueue::next_counted() {
  const std::lock_guard guard(lock_);
  if (events_.empty()) return {};
  const AsyncEvent event = events_.front();
  events_.pop_front();
  return event;
}

void EventQueue::forget(Qpn qpn, std::uint32_t number) {
  const std::lock_guard guard(lock_);
  std::size_t gone = std::erase_if(
      events_, [&](const AsyncEvent& event) { return event.qpn == qpn && event.number == number; });
  for (; gone > 0 && fd_ >= 0; --gone) {
    pollfd counted{fd_, POLLIN, 0};  // whoever waits in read() may have taken the count
    eventfd_t value;
    if (::poll(&counted, 1, 0) == 1) eventfd_read(fd_, &value);
  }
}

Result<int> EventQueue::fd() {
  const std::lock_guard guard(lock_);
  if (fd_ < 0) {
    fd_ =
        eventfd(static_cast<unsigned>(events_.size()), EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    if (fd_ < 0) return fail(Errc::kSystem, fmt::format("eventfd: {}", std::strerror(errno)));
  }
  return fd_;
}

}  // namespace weft::verbs

// The asynchronous events that one reader has not fetched yet, and the descriptor by which it waits
// for them. A controller has one; whoever opens the same controller a second time in a process
// (shared_device.h) gets one of its own, so that nobody takes another's events. Any thread, any
// lock held: its own lock is held for a few instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/lock.h"
#include "weft/result.h"
#include "weft/verbs.h"

namespace weft::verbs {

class EventQueue {
 public:
  EventQueue() = default;
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  /// False: there is no room, and the event is lost.
  bool push(const AsyncEvent& event);
  std::optional<AsyncEvent> next();
  /// The same for a caller that has read the descriptor, and so taken one count.
  std::optional<AsyncEvent> next_counted();
  /// The object goes: what waits about it goes too. Another number, or another kind, stays.
  void forget(Qpn qpn, std::uint32_t number);
  /// Readable while an event waits; made at the first call.
  Result<int> fd();

 private:
  base::Lock lock_;
  std::deque<AsyncEvent> events_;
  int fd_ = -1;
};

}  // namespace weft::verbs

// The asynchronous events that one reader has not fetched yet, and the descriptor by which it waits
// for them. A controller has one; whoever opens the same controller a second time in a process
// (shared_device.h) gets one of its own, so that nobody takes another's events. Any thread, any
// lock held but for wait(): its own lock is held for a few instructions, and never while somebody
// waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/lock.h"
#include "host/event_signal.h"
#include "weft/result.h"
#include "weft/verbs.h"

namespace weft::verbs {

class EventQueue {
 public:
  EventQueue() = default;
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  /// False: there is no room, and the event is lost.
  bool push(const AsyncEvent& event);
  std::optional<AsyncEvent> next();
  /// For who finds nothing: see host::EventSignal.
  std::uint32_t seen() const { return signal_.seen(); }
  int wait(std::uint32_t seen) const { return signal_.wait(seen); }
  /// The object goes: what waits about it goes too. Another number, or another kind, stays.
  void forget(Qpn qpn, std::uint32_t number);
  /// Readable while an event waits; made at the first call.
  Result<int> fd();

 private:
  base::Lock lock_;
  std::deque<AsyncEvent> events_;
  host::EventSignal signal_;
};

}  // namespace weft::verbs

// What happens next in a simulated world: events by time, and events of one time in the order in
// which they were announced, so that a run is the same each time. An event is a note to an Actor,
// which lives as long as the world; a note that has lost its meaning is the actor's to ignore.
// Owned by the world; one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "weft/types.h"

namespace weft::sim {

class Actor {
 public:
  virtual void on_event(std::uint64_t token) = 0;

 protected:
  ~Actor() = default;
};

class EventQueue {
 public:
  struct Event {
    Nanoseconds when;
    std::uint64_t order;
    Actor* actor;
    std::uint64_t token;
  };

  void at(Nanoseconds when, Actor& actor, std::uint64_t token) {
    heap_.push_back({when, announced_++, &actor, token});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  bool empty() const { return heap_.empty(); }
  /// When the next event is due; kNever if there is none.
  Nanoseconds next_time() const { return heap_.empty() ? kNever : heap_.front().when; }
  Event pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
  }
  std::uint64_t announced() const { return announced_; }

 private:
  static bool later(const Event& a, const Event& b) {
    return a.when != b.when ? a.when > b.when : a.order > b.order;
  }

  std::vector<Event> heap_;
  std::uint64_t announced_ = 0;
};

}  // namespace weft::sim

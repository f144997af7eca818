// What every part of a simulated world stands on: time, chance, the events to come, the record, the
// judge and the numbers. Owned by the world, made first and destroyed last; one thread.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "sim/event_queue.h"
#include "sim/judge.h"
#include "sim/stats.h"
#include "sim/trace.h"
#include "sim/virtual_clock.h"

namespace weft::sim {

struct Stage {
  explicit Stage(std::uint64_t seed) : random(seed), trace(clock), judge(clock) {}

  Nanoseconds now() { return clock.now(); }
  /// Uniform in [low, high].
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + random.below(high - low + 1);
  }
  bool one_in(std::uint64_t n) { return random.below(n) == 0; }
  void after(Nanoseconds delay, Actor& actor, std::uint64_t token) {
    events.at(now() + delay, actor, token);
  }

  VirtualClock clock;
  base::SeededRandom random;
  EventQueue events;
  Trace trace;
  Judge judge;
  Stats stats;
  std::uint64_t next_wr_id = 1;
};

}  // namespace weft::sim

// The time of a simulated world: it stands still while code runs and jumps to the next event.
// Owned by the world; one thread.
#pragma once

#include "base/assert.h"
#include "base/clock.h"

namespace weft::sim {

class VirtualClock final : public base::Clock {
 public:
  Nanoseconds now() override { return now_; }
  void advance_to(Nanoseconds when) {
    WEFT_ASSERT(when >= now_);
    now_ = when;
  }

 private:
  Nanoseconds now_ = 1'000;  ///< not 0, which production code may take for "not yet"
};

}  // namespace weft::sim

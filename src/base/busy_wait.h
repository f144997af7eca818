// How long a thread that is about to sleep keeps looking first. To wake a thread on another core
// takes tens of microseconds; a message that comes sooner is better waited for awake. Whether it
// does is learned from the waits before: after a long one nothing is spent, and each time that
// was spent in vain more waits go by without a try. One thread at a time.
#pragma once

#include <cstdint>

#include "weft/types.h"

namespace weft::base {

class BusyWait {
 public:
  /// As long as waking takes: a message that comes within it costs no more than sleeping would.
  static constexpr Nanoseconds kLongest_ns = 50'000;

  /// A wait begins: so long it may look. 0: it sleeps at once.
  Nanoseconds begin() {
    if (!short_before_) return 0;
    if (to_skip_ == 0) return kLongest_ns;
    --to_skip_;
    return 0;
  }
  /// What it waited for came while it looked.
  void found() { skipped_ = 0; }
  /// It did not: the thread sleeps.
  void missed() {
    skipped_ = skipped_ == 0 ? 1 : 2 * skipped_ < kMostSkipped ? 2 * skipped_ : kMostSkipped;
    to_skip_ = skipped_;
  }
  /// It slept, and the whole wait took so long.
  void slept(Nanoseconds whole_ns) { short_before_ = whole_ns < kShort_ns; }

 private:
  /// Two threads that sleep for each other's messages wake each other in this time.
  static constexpr Nanoseconds kShort_ns = 4 * kLongest_ns;
  static constexpr std::uint32_t kMostSkipped = 1024;

  bool short_before_ = false;
  std::uint32_t skipped_ = 0;  ///< after the last try that was in vain; 0: it was not
  std::uint32_t to_skip_ = 0;  ///< of these, still
};

}  // namespace weft::base

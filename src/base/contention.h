// Whether a thread that spins is kept from its processor by others: it wants to run, and does not.
// Each thread asks for itself, every now and then while it has nothing to do; a look takes two
// short system calls, and is made once in some milliseconds.
#pragma once

#include <cstdint>

#include "weft/types.h"

namespace weft::base {

/// What a thread has used of its processor.
struct ThreadTime {
  Nanoseconds cpu_ns = 0;
  long sleeps = 0;  ///< how often it gave its processor up by itself
};
ThreadTime thread_time();

/// What is made of it: asked for while the thread spins. One for each thread.
class Contention {
 public:
  /// True: give way. It stays so for a while, as a thread that sleeps is not in anybody's way, and
  /// for longer each time it begins again soon.
  bool lasts(Nanoseconds now) {
    return now < until_ || (now >= next_look_ && look(now, thread_time()));
  }
  /// The same with what the thread has used.
  bool look(Nanoseconds now, const ThreadTime& used);

 private:
  static constexpr Nanoseconds kWindow_ns = 4'000'000;
  static constexpr Nanoseconds kShortest_ns = 100'000'000, kLongest_ns = 1'600'000'000;
  /// Longer between two looks, and the thread did not spin all the time.
  static constexpr Nanoseconds kPause_ns = 1'000'000'000;

  Nanoseconds until_ = 0;
  Nanoseconds next_look_ = 0;
  Nanoseconds period_ns_ = kShortest_ns;
  Nanoseconds window_from_ = 0;
  ThreadTime before_;
};

}  // namespace weft::base

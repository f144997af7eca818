// How often a queue pair without acknowledgements looks at a key that may be a guess. A reliable
// connection dies of a wrong key; here a wrong one costs nothing but this: 64 at once, then 64 a
// second, so that trying out the 2^32 keys for one that works takes two years. Belongs to a
// responder, under its lock; sans-IO.
#pragma once

#include <algorithm>
#include <cstdint>

#include "weft/types.h"

namespace weft::transport {

class GuessLimit {
 public:
  static constexpr std::uint32_t kAtOnce = 64;
  static constexpr Nanoseconds kPause_ns = 1'000'000'000 / 64;

  /// No further key shall be tried now.
  bool spent(Nanoseconds now) const { return paid_until_ >= now + kAtOnce * kPause_ns; }
  /// A key was wrong.
  void count(Nanoseconds now) { paid_until_ = std::max(paid_until_, now) + kPause_ns; }

 private:
  Nanoseconds paid_until_ = 0;  // each wrong key takes a pause, and so many pauses may be owed
};

}  // namespace weft::transport

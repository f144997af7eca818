// How often a queue pair without acknowledgements looks at a key that may be a guess. A reliable
// connection dies of a wrong key; here a wrong one costs nothing but this: 64 at once, then 64 a
// second, so that trying out the 2^32 keys for one that works takes two years. Belongs to a
// responder, under its lock; sans-IO.
#pragma once

#include <algorithm>
#include <cstdint>

#include "weft/types.h"

namespace weft::transport {

template <std::uint32_t kPerSecond>
class RateLimit {
 public:
  static constexpr std::uint32_t kAtOnce = kPerSecond;
  static constexpr Nanoseconds kPause_ns = 1'000'000'000 / kPerSecond;

  /// No further one shall be tried now.
  bool spent(Nanoseconds now) const { return paid_until_ >= now + kAtOnce * kPause_ns; }
  /// One was: a wrong key.
  void count(Nanoseconds now) { paid_until_ = std::max(paid_until_, now) + kPause_ns; }

 private:
  Nanoseconds paid_until_ = 0;  // each takes a pause, and so many pauses may be owed
};
using GuessLimit = RateLimit<64>;

/// How often others may ask for an end-to-end context, each of which takes memory.
using RequestLimit = RateLimit<1024>;

}  // namespace weft::transport

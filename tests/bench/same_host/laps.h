// A stopwatch with laps. A process that loses its core for a moment spoils one lap and leaves the
// median of them alone, where a mean over the whole sample would be off by half. A local value of
// the function that measures; one thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include "canary.h"

namespace weft::bench {

/// How long a sample of a stream or a rate takes.
inline constexpr double kSampleSeconds = 0.04;

/// Messages in a lap of a stream, the same for everybody: a long lap loses more time slices.
inline constexpr std::size_t stream_lap(std::size_t bytes) { return bytes < (1 << 20) ? 64 : 16; }

class Laps {
 public:
  Laps() : begun_(Clock::now()), last_(begun_) { seconds_.reserve(1 << 14); }

  /// Ends a lap, and begins the next.
  void lap() {
    const auto now = Clock::now();
    seconds_.push_back(std::chrono::duration<double>(now - last_).count());
    last_ = now;
  }
  bool sample_complete() const {
    return std::chrono::duration<double>(last_ - begun_).count() >= kSampleSeconds;
  }
  /// Of the laps after the first quarter, which warms caches and predictors.
  double median_seconds() const {
    std::vector<double> sorted(seconds_.begin() + static_cast<long>(seconds_.size() / 4),
                               seconds_.end());
    if (sorted.empty()) return 0;
    const auto middle = sorted.begin() + static_cast<long>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }

 private:
  Clock::time_point begun_, last_;
  std::vector<double> seconds_;
};

/// Microseconds one way: `send(i)` and `receive(i)` go to and fro, the first side begins.
inline constexpr std::uint64_t kLapTrips = 500, kLatencyLaps = 60;
template <class Send, class Receive>
double ping_pong_us(Side side, Send send, Receive receive) {
  Laps laps;
  for (std::uint64_t i = 1; i <= kLatencyLaps * kLapTrips; ++i) {
    if (side == Side::kFirst) send(i);
    receive(i);
    if (side == Side::kSecond) send(i);
    if (i % kLapTrips == 0) laps.lap();
  }
  return laps.median_seconds() * 1e6 / (2.0 * static_cast<double>(kLapTrips));
}

}  // namespace weft::bench

// A rate limit (token bucket): so many at once, and then so many a second. Sans-IO, the time comes
// with each call; any thread.
#pragma once

#include <algorithm>
#include <atomic>

#include "weft/types.h"

namespace weft::cm {

class Allowance {
 public:
  constexpr Allowance(std::uint64_t at_once, std::uint64_t each_second)
      : each_ns_(1'000'000'000 / each_second), ahead_ns_(at_once * each_ns_) {}

  /// False: too many came.
  bool take(Nanoseconds now) {
    Nanoseconds paid = paid_until_.load(std::memory_order_relaxed);
    Nanoseconds next = 0;
    do {
      next = std::max(paid, now) + each_ns_;
      if (next > now + ahead_ns_) return false;
      // relaxed: the number stands for itself.
    } while (!paid_until_.compare_exchange_weak(paid, next, std::memory_order_relaxed));
    return true;
  }

 private:
  const Nanoseconds each_ns_, ahead_ns_;
  std::atomic<Nanoseconds> paid_until_{0};  ///< a steady stream would have come so far
};

}  // namespace weft::cm

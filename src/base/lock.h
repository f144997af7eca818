// A small lock for short critical sections: one byte-sized word, inline when uncontended (about
// four instructions), a bounded spin and then a futex sleep when not. Not recursive, not fair.
// Meets BasicLockable, so std::lock_guard works. Lives inside the object that it guards.
#pragma once

#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::base {

/// Tells the processor that this thread spins.
inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Lock {
 public:
  void lock() {
    std::uint32_t expected = kFree;
    // acquire pairs with the release in unlock(): what the last holder wrote is seen here.
    if (!word_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire)) [[unlikely]] {
      lock_slow();
    }
  }
  bool try_lock() {
    std::uint32_t expected = kFree;
    return word_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire);
  }
  void unlock() {
    if (word_.exchange(kFree, std::memory_order_release) == kContended) [[unlikely]]
      wake();
  }

 private:
  static constexpr std::uint32_t kFree = 0, kHeld = 1, kContended = 2;
  static constexpr int kSpins = 200;

  // Out of line, so that the quick way costs its callers no registers.
  [[gnu::noinline, gnu::cold]] void wake() { word_.notify_one(); }

  [[gnu::noinline, gnu::cold]] void lock_slow() {
    for (int i = 0; i < kSpins; ++i) {
      if (word_.load(std::memory_order_relaxed) == kFree && try_lock()) return;
      relax();
    }
    while (word_.exchange(kContended, std::memory_order_acquire) != kFree) {
      word_.wait(kContended, std::memory_order_relaxed);
    }
  }

  std::atomic<std::uint32_t> word_{kFree};
};

}  // namespace weft::base

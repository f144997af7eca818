// A small lock for short critical sections: inline when uncontended (one locked instruction, a
// plain store to let go), a bounded spin and then a futex sleep when not. Not recursive, not fair.
// Meets BasicLockable, so std::lock_guard works. Lives inside the object that it guards.
//
// Letting go is a plain store, so that it does not wait for the stores before it, which may be on
// their way to another core. Whether somebody sleeps is looked at behind it without a fence: the
// sleeper has paid for one (lock.cc).
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
    if (!try_lock()) [[unlikely]]
      lock_slow();
  }
  bool try_lock() {
    std::uint32_t expected = kFree;
    // acquire pairs with the release in unlock(): what the last holder wrote is seen here.
    return word_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire);
  }
  void unlock() {
    word_.store(kFree, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake();
  }

 private:
  static constexpr std::uint32_t kFree = 0, kHeld = 1;

  // Out of line, so that the fast path costs its callers no registers.
  void wake();
  void lock_slow();

  std::atomic<std::uint32_t> word_{kFree};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace weft::base

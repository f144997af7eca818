// A lock for short critical sections that most often one and the same thread enters: that thread
// gets in and out by plain loads and stores. A locked instruction costs some 20 cycles, and waits
// until every store before it has reached its cache line, which may be on its way to another core.
//
// The lock is biased towards the first thread that takes it many times in a row, and never towards
// another: one that was held up on its way in may still say that it is inside, and must not be
// mistaken for its successor. Whoever else wants the lock takes the bias away first, with a barrier
// in every thread of the process (membarrier), which costs it some microseconds; each time the bias
// takes longer to come back. Without membarrier there is none, and this is base::Lock.
// docs/memory-model.md states the protocol.
//
// Not recursive, not fair. Meets Lockable. Lives inside the object that it guards.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/lock.h"
#include "base/this_thread.h"

namespace weft::base {

class BiasedLock {
 public:
  void lock() {
    if (!try_enter()) [[unlikely]]
      lock_slow();
  }
  /// Never waits for whoever has it.
  bool try_lock() { return try_enter() || try_lock_slow(); }
  /// No lock is biased towards this thread from now on: it is there for when others do not come.
  static void never_own();
  void unlock() {
    if (by_word_) [[unlikely]]
      return unlock_slow();
    leave();
  }

  /// The owner's way in, for where every instruction counts; false: not the owner, or not any more.
  /// Whoever came in by it goes out by leave().
  bool try_enter() {
    if (owner_.load(std::memory_order_relaxed) != me()) return false;
    inside_.store(true, std::memory_order_relaxed);
    // No fence: whoever changes the owner has one executed here, and looks at inside_ behind it.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (owner_.load(std::memory_order_acquire) == me()) [[likely]]
      return true;
    inside_.store(false, std::memory_order_release);
    return false;
  }
  void leave() {
    // release: whoever takes the bias away reads it (acquire) before it touches what is guarded.
    inside_.store(false, std::memory_order_release);
  }

 private:
  static const void* me() { return this_thread(); }

  // Out of line, so that the fast path costs its callers no registers.
  void lock_slow();
  bool try_lock_slow();
  void unlock_slow();
  void take_bias_away();
  /// The next bias takes longer to come.
  void lose_patience();

  std::atomic<const void*> owner_{nullptr};  ///< written by the holder of word_
  Lock word_;                                ///< for all but the owner
  std::atomic<bool> inside_{false};          ///< the owner is, or tries to
  bool by_word_ = false;                     ///< the holder came by word_; the holder's
  // The holder's, who came by word_.
  std::uint8_t patience_log2_ = 5;   ///< so many times in a row make an owner
  bool settled_ = false;             ///< who may be the owner is so for ever
  std::uint32_t times_ = 0;          ///< in a row
  const void* candidate_ = nullptr;  ///< who may be, or who took it last
};

}  // namespace weft::base

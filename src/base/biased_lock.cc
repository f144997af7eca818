#include "base/biased_lock.h"

#include <time.h>

#include "base/thread_barrier.h"

namespace weft::base {
namespace {

constexpr std::uint8_t kMostPatience_log2 = 24;
constexpr int kOwnerSpins = 2000;
constexpr timespec kOwnerNap{0, 50'000};

constinit thread_local bool never_owns = false;

}  // namespace

void BiasedLock::never_own() { never_owns = true; }

void BiasedLock::lock_slow() {
  word_.lock();
  if (owner_.load(std::memory_order_relaxed) != nullptr) take_bias_away();
  by_word_ = true;
}

bool BiasedLock::try_lock_slow() {
  if (!word_.try_lock()) return false;
  if (const void* const owner = owner_.load(std::memory_order_relaxed); owner != nullptr) {
    bool inside = inside_.load(std::memory_order_relaxed);
    if (!inside) {
      owner_.store(nullptr, std::memory_order_relaxed);
      order_all_threads();  // as in take_bias_away()
      inside = inside_.load(std::memory_order_acquire);
      // It came in meanwhile. Not waited for: it is the owner as before.
      if (inside) owner_.store(owner, std::memory_order_relaxed);
    }
    if (inside) {
      word_.unlock();
      return false;
    }
    lose_patience();
  }
  by_word_ = true;
  return true;
}

void BiasedLock::unlock_slow() {
  by_word_ = false;
  if (never_owns) {
    times_ = 0;
  } else if (candidate_ != me()) {
    if (!settled_) candidate_ = me();
    times_ = 0;
  } else if (++times_ >> patience_log2_ != 0 && can_order_threads()) {
    settled_ = true;
    times_ = 0;
    owner_.store(me(), std::memory_order_relaxed);
  }
  word_.unlock();
}

void BiasedLock::take_bias_away() {
  owner_.store(nullptr, std::memory_order_relaxed);
  // Behind this the owner, if it is inside, is seen there; otherwise it sees that it is none.
  order_all_threads();
  for (int i = 0; inside_.load(std::memory_order_acquire); ++i) {
    if (i < kOwnerSpins) {
      relax();
    } else {
      nanosleep(&kOwnerNap, nullptr);
    }
  }
  lose_patience();
}

void BiasedLock::lose_patience() {
  if (patience_log2_ < kMostPatience_log2) ++patience_log2_;
}

}  // namespace weft::base

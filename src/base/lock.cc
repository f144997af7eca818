#include "base/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/thread_barrier.h"

namespace weft::base {
namespace {

constexpr int kSpins = 200;
/// A sleeper looks again after this long. Where membarrier is refused that may be all that wakes
/// it.
constexpr long kNap_ns = 100'000'000, kNapWithoutBarrier_ns = 1'000'000;

}  // namespace

void Lock::lock_slow() {
  for (int i = 0; i < kSpins; ++i) {
    if (word_.load(std::memory_order_relaxed) == kFree && try_lock()) return;
    relax();
  }
  sleepers_.fetch_add(1, std::memory_order_relaxed);
  // Whoever lets go stores the word and then looks for sleepers, with no fence between the two.
  // Behind this barrier either it sees us, or we see its store.
  if (can_order_threads()) order_all_threads();
  while (!try_lock()) {
    const timespec nap{0, can_order_threads() ? kNap_ns : kNapWithoutBarrier_ns};
    syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, kHeld, &nap, nullptr, 0);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void Lock::wake() { syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

}  // namespace weft::base

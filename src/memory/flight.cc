#include "memory/flight.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <mutex>

#include "base/assert.h"
#include "base/lock.h"
#include "memory/guard_signals.h"

namespace weft::memory {
namespace {

constexpr int kSpins = 2000;
constexpr long kNapNs = 20'000;
constexpr long kStallNs = 100'000'000;

bool membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

long now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

std::atomic<Flight::StallHandler> stall_handler{nullptr};

}  // namespace

constinit thread_local Flight::Slot* Flight::mine_ = nullptr;
std::atomic<bool> Flight::has_membarrier_ = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);

// All slots ever made; only the front changes, slots are reused and never freed.
struct FlightList {
  std::atomic<Flight::Slot*> first{nullptr};

  static FlightList& instance() {
    // Never destroyed: threads may outlive the static objects.
    static FlightList& list = *new FlightList;
    return list;
  }

  FlightList() {
    pthread_atfork(nullptr, nullptr, [] { instance().after_fork(); });
  }

  Flight::Slot* take(int thread_id) {
    for (auto* slot = first.load(std::memory_order_acquire); slot != nullptr; slot = slot->next) {
      int free = 0;
      // acquire pairs with the release in give_back().
      if (slot->thread_id.compare_exchange_strong(free, thread_id, std::memory_order_acquire)) {
        return slot;
      }
    }
    auto* slot = new Flight::Slot;
    slot->thread_id.store(thread_id, std::memory_order_relaxed);
    slot->next = first.load(std::memory_order_relaxed);
    // release pairs with the acquire load of `first` in drain().
    while (!first.compare_exchange_weak(slot->next, slot, std::memory_order_release,
                                        std::memory_order_relaxed)) {
    }
    return slot;
  }

  static void give_back(Flight::Slot* slot) {
    for (auto& word : slot->words) word.store(nullptr, std::memory_order_release);
    for (std::size_t i = kMaxKept; i-- > 0;) {
      slot->kept[i].store(nullptr, std::memory_order_release);
    }
    slot->kept_count = 0;
    slot->thread_id.store(0, std::memory_order_release);
  }

  // The other threads did not come along into the child, so nobody would ever clear their words.
  void after_fork() {
    for (auto* slot = first.load(std::memory_order_acquire); slot != nullptr; slot = slot->next) {
      if (slot == Flight::mine_) {
        slot->thread_id.store(gettid(), std::memory_order_relaxed);
      } else {
        give_back(slot);
      }
    }
  }

  static void leave() {
    give_back(Flight::mine_);
    Flight::mine_ = nullptr;
  }

  static void wait_for(const Flight::Slot& slot, const std::atomic<const void*>& word,
                       const void* object);
};

Flight::Slot* Flight::enlist() {
  guard::prepare_thread();  // it is about to touch users' memory
  mine_ = FlightList::instance().take(gettid());
  struct AtThreadEnd {
    ~AtThreadEnd() { FlightList::leave(); }
  };
  // A thread that publishes again after this destructor keeps its slot for good: a leak of one
  // slot, and harmless, since an empty one holds nobody up.
  static thread_local AtThreadEnd at_thread_end;
  static_cast<void>(at_thread_end);
  return mine_;
}

void Flight::keep_new(Slot& slot, const void* object) {
  WEFT_ASSERT(slot.kept_count < kMaxKept);
  // Pairs with the acquire loads in drain(); order() makes it visible before the checks.
  slot.kept[slot.kept_count++].store(object, std::memory_order_release);
  order();
}

void FlightList::wait_for(const Flight::Slot& slot, const std::atomic<const void*>& word,
                          const void* object) {
  // acquire pairs with the release in clear(). Seen empty once is enough: who publishes later finds
  // the object dead.
  for (int i = 0; i < kSpins; ++i) {
    if (word.load(std::memory_order_acquire) != object) return;
    base::relax();
  }
  const long since = now_ns();
  bool told = false;
  while (word.load(std::memory_order_acquire) == object) {
    const timespec nap{0, kNapNs};
    nanosleep(&nap, nullptr);
    if (told || now_ns() - since < kStallNs) continue;
    told = true;
    if (auto* handler = stall_handler.load(std::memory_order_acquire)) {
      handler(object, slot.thread_id.load(std::memory_order_relaxed));
    }
  }
}

void Flight::drain(const void* object) {
  // Two threads that drain what the other keeps would wait for ever.
  WEFT_ASSERT(!keeps_any());
  if (has_membarrier_.load(std::memory_order_relaxed)) {
    // A process that was forked may have to register again.
    const bool done = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
                      (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
                       membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
    if (!done) {
      // Forbidden since the start (a sandbox was closed): from now on publishers fence. What those
      // before us published is seen at the latest after a nap: no processor keeps a store so long.
      has_membarrier_.store(false, std::memory_order_seq_cst);
      const timespec nap{0, 1'000'000};
      nanosleep(&nap, nullptr);
    }
  }
  wait_for_all(object);
}

void Flight::drain_fenced(const void* object) {
  WEFT_ASSERT(!keeps_any());
  wait_for_all(object);
}

void Flight::wait_for_all(const void* object) {
  // Pairs with the fence of whoever publishes, or orders this thread around membarrier's work.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (auto* slot = FlightList::instance().first.load(std::memory_order_acquire); slot != nullptr;
       slot = slot->next) {
    if (slot == mine_) continue;
    for (const auto& word : slot->words) FlightList::wait_for(*slot, word, object);
    for (const auto& word : slot->kept) {
      // acquire pairs with the release in release_kept(): behind an empty word all are empty, or
      // were filled after the object died.
      if (word.load(std::memory_order_acquire) == nullptr) break;
      FlightList::wait_for(*slot, word, object);
    }
  }
}

void Flight::set_stall_handler(StallHandler handler) {
  stall_handler.store(handler, std::memory_order_release);
}

}  // namespace weft::memory

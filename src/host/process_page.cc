#include "host/process_page.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/lock.h"
#include "host/fork.h"
#include "host/settings.h"
#include "memory/guard.h"

namespace weft::host {
namespace {

void allow_copies() {
  if (!lets_others_trace()) return;
  // Without Yama there is nothing to allow, and the call is refused.
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

bool membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

base::Lock making;
std::atomic<ProcessPage*> made{nullptr};

/// Slots of threads that have ended, by number, for the next ones.
struct FreeSlots {
  base::Lock lock;
  std::array<std::uint16_t, kMaxFlightThreads> numbers;
  std::uint32_t count = 0;
};
FreeSlots free_slots;

}  // namespace

constinit thread_local FlightSlot* ProcessPage::my_slot_ = nullptr;

// The parent's page holds zeros here; the objects of the parent keep their pointer to it. Locks
// that another thread held at fork are nobody's in the child, whose only thread this is.
void ProcessPage::forget_parent() {
  made.store(nullptr, std::memory_order_release);
  new (&making) base::Lock;
  new (&free_slots.lock) base::Lock;
  free_slots.count = 0;
  my_slot_ = nullptr;
}

// ---- the neighbours' view -------------------------------------------------------------------

Result<ProcessView> ProcessView::receive(StrangeFd fd) {
  auto memory = SharedMemory::receive(std::move(fd), kProcessPageBytes, kProcessPageBytes,
                                      SharedMemory::Peers::kRead);
  if (!memory) return tl::unexpected(memory.error());
  memory->close_fd();
  ProcessView view;
  view.memory_ = std::move(*memory);
  if (view.page().magic != ProcessPageLayout::kMagic) {
    return fail(Errc::kInvalidArgument, "process page: another layout");
  }
  return view;
}

bool ProcessView::alive() const {
  // The lock's word is its owner's thread number; the kernel sets FUTEX_OWNER_DIED at its end.
  const auto* word = reinterpret_cast<const int*>(&page().alive.__data.__lock);
  const auto value = static_cast<unsigned>(__atomic_load_n(word, __ATOMIC_ACQUIRE));
  return (value & FUTEX_TID_MASK) != 0 && (value & FUTEX_OWNER_DIED) == 0;
}

template <class Match>
bool ProcessView::any_word(Match match) const {
  const std::uint32_t count =
      std::min(page().flight_count.load(std::memory_order_acquire), kMaxFlightThreads);
  for (std::uint32_t i = 0; i < count; ++i) {
    for (const auto& held : page().flights[i].words) {
      // acquire pairs with the release in put() and clear(): what was done under it is visible.
      if (match(held.load(std::memory_order_acquire))) return true;
    }
  }
  return false;
}

bool ProcessView::in_flight(std::uint64_t word) const {
  return any_word([word](std::uint64_t held) { return held == word; });
}

bool ProcessView::in_flight_at(std::uint32_t tag) const {
  return any_word([tag](std::uint64_t held) { return held >> 32 == tag; });
}

// ---- our own --------------------------------------------------------------------------------

Result<ProcessPage*> ProcessPage::mine() {
  ProcessPage* page = made.load(std::memory_order_acquire);
  if (page != nullptr && page->fd() >= 0) return page;
  const std::lock_guard guard(making);
  page = made.load(std::memory_order_acquire);
  if (page == nullptr) return create();
  if (page->fd() < 0) page->renew();
  return page;
}

ProcessPage* ProcessPage::existing() {
  ProcessPage* page = made.load(std::memory_order_acquire);
  return page != nullptr && page->process_ == getpid() ? page : nullptr;
}

void ProcessPage::close_to_copies(bool closed) {
  if (closed) {
    page().closed.fetch_add(1, std::memory_order_seq_cst);
  } else {
    page().closed.fetch_sub(1, std::memory_order_release);
  }
}

bool ProcessPage::renew() {
  auto memory = SharedMemory::create("weft-process", kProcessPageBytes, kProcessPageBytes,
                                     SharedMemory::Peers::kRead);
  if (!memory) return false;
  // Whoever knew the old one has seen its links hang up; what threads still have in flight there is
  // nobody's concern any more. The lock moves with its owner: the kernel knows it by its address.
  auto& fresh = *reinterpret_cast<ProcessPageLayout*>(memory->data());
  fresh.magic = page().magic;
  fresh.cannot_membarrier = page().cannot_membarrier;
  fresh.flight_count.store(page().flight_count.load(std::memory_order_acquire),
                           std::memory_order_relaxed);
  std::memcpy(&fresh.alive, &page().alive, sizeof fresh.alive);
  request_state_.store(kAnswerTaken, std::memory_order_seq_cst);
  return memory_.replace_by(std::move(*memory));
}

Result<ProcessPage*> ProcessPage::create() {
  auto memory = SharedMemory::create("weft-process", kProcessPageBytes, kProcessPageBytes,
                                     SharedMemory::Peers::kRead);
  if (!memory) return tl::unexpected(memory.error());
  static const bool registered = [] {
    call_in_child(forget_parent);
    return true;
  }();
  static_cast<void>(registered);
  auto* mine = new ProcessPage;
  mine->memory_ = std::move(*memory);
  mine->process_ = getpid();
  ProcessPageLayout& page = mine->page();
  page.cannot_membarrier = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) ? 0 : 1;
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&page.alive, &attributes);
  pthread_mutexattr_destroy(&attributes);
  page.magic = ProcessPageLayout::kMagic;
  allow_copies();
  made.store(mine, std::memory_order_release);
  return mine;
}

void ProcessPage::adopt_liveness() {
  if (adopted_.load(std::memory_order_acquire)) return;
  pthread_mutex_lock(&page().alive);
  adopted_.store(true, std::memory_order_release);
}

void ProcessPage::request_wake() {
  // The last request stands: an answer to it lies in a socket, for whoever sleeps there.
  if (request_state_.load(std::memory_order_seq_cst) == kOpen) return;
  std::uint32_t number = 0;
  while (number == 0) {
    number = (requests_.fetch_add(1, std::memory_order_relaxed) + 1) & ~kAsksForFence;
  }
  request_state_.store(number, std::memory_order_seq_cst);
  // Of two that ask at once either number may stay: both are new to every neighbour.
  const std::uint32_t before =
      page().wake_request.exchange(number | kAsksForFence, std::memory_order_seq_cst);
  if ((before & kAsksForFence) != 0) {
    std::atomic_thread_fence(std::memory_order_seq_cst);  // its partner: ProcessView
  } else {
    // Neighbours have published without a fence and then looked at the request: it is ours.
    barrier();
  }
  // Unless it has been answered since, or somebody else asks, who then says so.
  std::uint32_t mine = number;
  request_state_.compare_exchange_strong(mine, kOpen, std::memory_order_seq_cst);
}

void ProcessPage::spare_fences() {
  std::uint32_t word = page().wake_request.load(std::memory_order_relaxed);
  if ((word & kAsksForFence) == 0) return;
  // Not over a newer request, whose owner counts on the fences.
  page().wake_request.compare_exchange_strong(word, word & ~kAsksForFence,
                                              std::memory_order_seq_cst);
}

void ProcessPage::wakes_were_taken() {
  // seq_cst: either we see who sleeps, or they see that they have to ask anew.
  request_state_.store(kAnswerTaken, std::memory_order_seq_cst);
  if (watchers_.load(std::memory_order_seq_cst) != 0) request_wake();
}

FlightSlot* ProcessPage::enlist() {
  struct AtThreadEnd {
    ~AtThreadEnd() {
      if (my_slot_ == nullptr) return;
      my_slot_->clear();
      const std::lock_guard guard(free_slots.lock);
      free_slots.numbers[free_slots.count++] = number;
      my_slot_ = nullptr;
    }
    std::uint16_t number = 0;
  };
  static thread_local AtThreadEnd at_thread_end;
  ProcessPageLayout& layout = page();
  const std::lock_guard guard(free_slots.lock);
  std::uint32_t number = layout.flight_count.load(std::memory_order_relaxed);
  if (free_slots.count > 0) {
    number = free_slots.numbers[--free_slots.count];
  } else if (number < kMaxFlightThreads) {
    layout.flight_count.store(number + 1, std::memory_order_release);
  } else {
    return nullptr;
  }
  at_thread_end.number = static_cast<std::uint16_t>(number);
  my_slot_ = &layout.flights[number];
  return my_slot_;
}

bool ProcessPage::settled(std::uint32_t tag) const {
  // A moment only: a thread that copies all the time may wait for the processor that this one has.
  constexpr int kSpins = 100;
  barrier();
  const std::uint32_t count = page().flight_count.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i) {
    for (const auto& word : page().flights[i].words) {
      // Once it has been seen elsewhere: what it publishes next is checked after that.
      for (int spins = 0; word.load(std::memory_order_acquire) >> 32 == tag; ++spins) {
        if (spins == kSpins) return false;
        base::relax();
      }
    }
  }
  return true;
}

void ProcessPage::barrier() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!cannot_membarrier() && !membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED)) {
    // Forbidden since the page was made. Others count on us; a processor that has not published
    // its stores after this long does not exist.
    const timespec nap{0, 1'000'000};
    nanosleep(&nap, nullptr);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace weft::host

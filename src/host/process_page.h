// What this process shows of itself to all its neighbours on the host, read-only for them: whether
// it lives, whether it wants to be woken, and what its threads are working on in other processes.
//
// Liveness: a robust lock that the helper thread takes and never gives back. The kernel marks it
// when the process ends or becomes another program by exec, before the process number can be used
// again, so one load tells whether a process is still the one that was met.
//
// Flight: before a thread touches memory of another process it publishes (process, key) in a word
// here, then checks the key; whoever revokes the key marks it dead, and waits until no living
// neighbour has it in a word (memory/flight.h does the same inside a process). Any thread.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "host/shared_memory.h"

namespace weft::host {

inline constexpr std::uint32_t kMaxFlightThreads = 1023;

/// Names an object of another process in a flight word: the owner's tag, the kind, the number.
constexpr std::uint64_t flight_word(std::uint32_t tag, bool queue_pair, std::uint32_t number) {
  return std::uint64_t{tag} << 32 | std::uint64_t{queue_pair} << 31 | number;
}

enum class FlightUse : std::uint8_t { kQueuePair, kKey };

struct alignas(64) FlightSlot {
  std::array<std::atomic<std::uint64_t>, 2> words;
  void put(FlightUse use, std::uint64_t word) {
    // release: it may replace a word that was worked under.
    words[static_cast<std::size_t>(use)].store(word, std::memory_order_release);
  }
  void clear() {
    words[0].store(0, std::memory_order_release);
    words[1].store(0, std::memory_order_release);
  }
};

struct ProcessPageLayout {
  static constexpr std::uint64_t kMagic = 0x3170'6874'6665'7721;
  std::uint64_t magic;
  /// Publishing threads order their words by a fence of their own; otherwise by membarrier.
  std::uint32_t cannot_membarrier;
  /// The number of the last request for a wake-up: whoever gives the process something, and has
  /// not answered this request, wakes it. 0: nobody there has ever asked. With kAsksForFence while
  /// the process sleeps often.
  std::atomic<std::uint32_t> wake_request;
  std::atomic<std::uint32_t> flight_count;
  std::atomic<std::uint32_t> closed;  ///< not to be copied from or to by number: exec is near
  alignas(64) pthread_mutex_t alive;
  alignas(64) std::array<FlightSlot, kMaxFlightThreads> flights;
};
/// Whoever gives the process something fences before it looks at the request, so that each sleep
/// there needs no barrier in all processes.
inline constexpr std::uint32_t kAsksForFence = 1u << 31;
inline constexpr std::size_t kProcessPageBytes = (sizeof(ProcessPageLayout) + 4095) / 4096 * 4096;

/// A page as its neighbours see it.
class ProcessView {
 public:
  ProcessView() = default;
  /// Refuses what is not such a page.
  static Result<ProcessView> receive(StrangeFd fd);

  bool alive() const;
  /// The number of its last request for a wake-up; 0: there was none.
  std::uint32_t wake_request() const {
    return page().wake_request.load(std::memory_order_relaxed) & ~kAsksForFence;
  }
  /// The same for one who has just given it something.
  std::uint32_t wake_request_after_publish() const {
    if ((page().wake_request.load(std::memory_order_relaxed) & kAsksForFence) != 0) [[unlikely]] {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    return wake_request();
  }
  bool cannot_membarrier() const { return page().cannot_membarrier != 0; }
  /// Asked after a flight word was published: see exec.h.
  bool closed_to_copies() const { return page().closed.load(std::memory_order_acquire) != 0; }
  /// The word of some thread there is this one.
  bool in_flight(std::uint64_t word) const;
  /// Some thread there works on something of the owner of the tag.
  bool in_flight_at(std::uint32_t tag) const;

 private:
  const ProcessPageLayout& page() const {
    return *reinterpret_cast<const ProcessPageLayout*>(memory_.data());
  }
  template <class Match>
  bool any_word(Match match) const;
  SharedMemory memory_;
};

/// This process's own page: made at first use, never destroyed; a forked child makes another.
/// Making it allows processes of the same user to copy from and to this one also where the Yama
/// security module asks for that (PR_SET_PTRACER_ANY), unless the settings say no.
class ProcessPage {
 public:
  static Result<ProcessPage*> mine();
  /// Never makes one; nullptr also in a child after vfork, which looks at its parent's memory.
  static ProcessPage* existing();

  int fd() const { return memory_.fd(); }
  /// The calling thread lives as long as the process: its end is the end of `alive`.
  void adopt_liveness();
  bool has_liveness() const { return adopted_.load(std::memory_order_acquire); }
  // Wake-ups (docs/memory-model.md, 3). Each neighbour answers a request once.
  /// From now on somebody may sleep on the links' sockets; until end_watch().
  void begin_watch() { watchers_.fetch_add(1, std::memory_order_seq_cst); }
  void end_watch() { watchers_.fetch_sub(1, std::memory_order_relaxed); }
  /// After begin_watch(), before a sleep. What neighbours gave without a wake-up is visible when
  /// this returns: the caller looks for it, and then sleeps.
  void request_wake();
  /// After wake-ups were taken out of sockets. Whoever took them then looks for what they were for.
  void wakes_were_taken();
  /// The process does not sleep often any more: neighbours need not fence for it.
  void spare_fences();
  /// Counts: several threads may try to exec at once.
  void close_to_copies(bool closed);
  bool cannot_membarrier() const { return page().cannot_membarrier != 0; }

  /// The calling thread's words; nullptr when too many threads have some.
  FlightSlot* flight() {
    FlightSlot* slot = my_slot_;
    return slot != nullptr ? slot : enlist();
  }

  /// No thread of this process works on what it found at the owner of the tag before this call.
  /// False: some still does, after a moment. What they would find has been taken away before.
  bool settled(std::uint32_t tag) const;

  /// Everything that other threads of registered processes published before is visible after.
  void barrier() const;

 private:
  static Result<ProcessPage*> create();
  /// The program has closed its descriptor: the same page with another one.
  bool renew();
  static void forget_parent();
  FlightSlot* enlist();
  ProcessPageLayout& page() const { return *reinterpret_cast<ProcessPageLayout*>(memory_.data()); }
  SharedMemory memory_;
  pid_t process_ = 0;
  std::atomic<bool> adopted_{false};
  std::atomic<std::uint32_t> requests_{0};
  std::atomic<std::uint32_t> watchers_{0};
  /// How the last request stands; else the number of one that is being made, whose barrier is not
  /// over: nobody else may count on it.
  enum : std::uint32_t { kOpen = 0, kAnswerTaken = kAsksForFence };
  std::atomic<std::uint32_t> request_state_{kAnswerTaken};
  [[gnu::tls_model("initial-exec")]] static constinit thread_local FlightSlot* my_slot_;
};

/// Words of one thread, cleared at the end of the scope.
class FlightScope {
 public:
  explicit FlightScope(FlightSlot* slot) : slot_(slot) {}
  ~FlightScope() {
    if (slot_ != nullptr) slot_->clear();
  }
  FlightScope(const FlightScope&) = delete;
  FlightScope& operator=(const FlightScope&) = delete;

 private:
  FlightSlot* slot_;
};

/// Orders published words before the checks that follow: the fence, if one is needed at all.
inline void flight_order(bool fence) {
  if (fence) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

}  // namespace weft::host

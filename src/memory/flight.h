// What each thread is working on right now, so that revocation can wait for it. A working thread
// publishes an object, THEN checks that the object is live, works (copies at most 1 MiB; a post
// 256 KiB) and clears. A revoking thread marks the object dead, then drains: when drain() returns,
// nobody works on the object and nobody will. Publishing costs a few instructions, since the
// expensive barrier is on the draining side (membarrier, a system call); an object whose users all
// fence between publishing and checking is drained by drain_fenced(), without the kernel. State is
// per process; any thread; slots are made at a thread's first use and recycled at its end. Nobody
// may drain while it has something published that another draining thread could wait for.
//
// Work on memory that outlives one call, such as frames that are built now and sent later, keeps
// its objects published: keep() as many as there are, release_kept() when it is done.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::memory {

/// The things that one thread can hold at the same time.
enum class Hold : std::uint8_t { kSelf, kPeer, kRemote, kLocal, kScatter };
inline constexpr std::size_t kHolds = 5;
/// How many objects one thread can keep.
inline constexpr std::size_t kMaxKept = 64;

class Flight {
 public:
  /// One thread's words. For code that publishes several objects before one barrier: put() them
  /// all, order(), then check each; drop() when done.
  struct alignas(64) Slot {
    void put(Hold hold, const void* object) {
      // Pairs with the acquire loads in drain(); order() makes it visible before the checks.
      // Release, since it may replace an object that was worked on: whoever sees it gone sees that
      // work.
      words[static_cast<std::size_t>(hold)].store(object, std::memory_order_release);
    }
    /// Release: whatever was done to the object is visible to the drain() that sees this.
    void drop(Hold hold) {
      words[static_cast<std::size_t>(hold)].store(nullptr, std::memory_order_release);
    }

    std::array<std::atomic<const void*>, kHolds> words{};
    std::atomic<int> thread_id{0};  ///< 0: free for a new thread
    Slot* next = nullptr;           ///< set before the slot is in the list, then constant
    /// What is kept: the words in front of the first empty one. Filled upwards and emptied
    /// downwards, so whoever reads upwards and finds an empty one has missed nobody behind it.
    std::array<std::atomic<const void*>, kMaxKept> kept{};
    std::size_t kept_count = 0;  ///< the thread's own
  };
  static Slot& mine() {
    Slot* slot = mine_;
    if (slot == nullptr) [[unlikely]]
      slot = enlist();
    return *slot;
  }
  /// What was put before it is visible before what is read after it: membarrier's work, on the
  /// draining side, or else the fence's.
  static void order() {
    if (has_membarrier_.load(std::memory_order_relaxed)) [[likely]] {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  }
  /// For objects that are drained without membarrier.
  static void fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

  static void publish(Hold hold, const void* object) {
    mine().put(hold, object);
    order();
  }

  /// Release: whatever was done to the object is visible to the drain() that sees this.
  template <class... Holds>
  static void clear(Holds... holds) {
    Slot* slot = mine_;
    if (slot == nullptr) [[unlikely]]
      return;
    (slot->drop(holds), ...);
  }

  /// Publishes the object until release_kept(); once is enough for any number of uses. The caller
  /// has seen to it that there is room.
  static void keep(const void* object) {
    Slot& slot = mine();
    for (std::size_t i = slot.kept_count; i-- > 0;) {
      if (slot.kept[i].load(std::memory_order_relaxed) == object) return;
    }
    keep_new(slot, object);
  }
  /// Whether this thread can keep so many more.
  static bool has_room_to_keep(std::size_t objects) {
    return mine().kept_count + objects <= kMaxKept;
  }
  /// This thread keeps something, so it must not drain.
  static bool keeps_any() { return mine_ != nullptr && mine_->kept_count != 0; }
  /// This thread holds or keeps something: it must not sleep, since others may wait for it.
  static bool holds_any() {
    if (mine_ == nullptr) return false;
    for (const auto& word : mine_->words) {
      if (word.load(std::memory_order_relaxed) != nullptr) return true;
    }
    return keeps_any();
  }
  static void release_kept() {
    Slot* slot = mine_;
    if (slot == nullptr) [[unlikely]]
      return;
    // Release, as in drop(). Downwards: see Slot::kept.
    while (slot->kept_count > 0) {
      slot->kept[--slot->kept_count].store(nullptr, std::memory_order_release);
    }
  }

  /// Waits until no other thread holds or keeps the object, which the caller has marked dead. It
  /// returns only then; a thread that keeps it waiting for 100 ms is named to the stall handler.
  static void drain(const void* object);
  /// The same for an object that everybody checks behind a fence of its own. No system call, unless
  /// somebody holds the object for longer than a short while.
  static void drain_fenced(const void* object);

  /// Gets the object and the Linux thread id of the one that holds it, once per slow drain.
  using StallHandler = void (*)(const void* object, int thread_id);
  static void set_stall_handler(StallHandler handler);

  /// Clears at its end what somebody else published for this thread, such as
  /// KeyTable::check_remote: nothing is remembered, so it costs one store.
  template <Hold kHold>
  class Adopted {
   public:
    Adopted() = default;
    ~Adopted() { clear(kHold); }
    Adopted(const Adopted&) = delete;
    Adopted& operator=(const Adopted&) = delete;
  };

  /// Clears at its end what was published through it, and what adopt() named.
  class Scope {
   public:
    Scope() = default;
    Scope(Hold hold, const void* object) { set(hold, object); }
    ~Scope() { clear(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    void set(Hold hold, const void* object) {
      publish(hold, object);
      adopt(hold);
    }
    /// Takes over what somebody else published for this thread, such as KeyTable::check_remote.
    void adopt(Hold hold) { held_ |= 1U << static_cast<unsigned>(hold); }
    void clear() {
      for (unsigned i = 0; held_ != 0; ++i, held_ >>= 1) {
        if ((held_ & 1U) != 0) Flight::clear(static_cast<Hold>(i));
      }
    }

   private:
    unsigned held_ = 0;
  };

 private:
  friend struct FlightList;

  static Slot* enlist();
  static void wait_for_all(const void* object);
  static void keep_new(Slot& slot, const void* object);

  [[gnu::tls_model("initial-exec")]] static constinit thread_local Slot* mine_;
  /// Set before main() and before the first slot; false for good once the call is refused.
  static std::atomic<bool> has_membarrier_;
};

}  // namespace weft::memory

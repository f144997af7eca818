// Memory of one process that another writes to without a pause, until it is taken back: the two
// roles of the tests of revocation. What lands after that is found by looking.
#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>

#include "support/guarded_memory.h"
#include "support/mailbox.h"
#include "support/neighbour_side.h"

namespace weft::test {

inline constexpr std::uint32_t kHammeredBytes = 256 * 1024;  // as much as is copied at a time
inline constexpr std::byte kHammer{0x5A};

/// What the owner tells the writer, faster than by a socket.
struct Anvil {
  std::atomic<std::uint64_t> address{0};
  std::atomic<std::uint32_t> key{0};  ///< 0: nothing to write to
  std::atomic<bool> over{false};

  void set(const RemoteAddress& remote) {
    address.store(remote.address, std::memory_order_relaxed);
    key.store(remote.key.value, std::memory_order_release);
  }
};

/// Puts the calling thread on a processor of its own, as far as there are some, so that writer and
/// owner run at the same time.
inline void run_on_processor(int index) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  CPU_ZERO(&one);
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || seen++ != index % CPU_COUNT(&allowed)) continue;
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

class Hammer {
 public:
  explicit Hammer(const verbs::ProtectionDomain& pd) : region_(source_.grant(pd, kAllAccess)) {
    source_.fill(kHammer);
    run_on_processor(1);
  }
  /// One write of everything or of a part, and what has completed. False: it could not be posted.
  bool swing(verbs::QueuePair& qp, const verbs::CompletionQueue& cq, Anvil& anvil) {
    const RemoteKey key(anvil.key.load(std::memory_order_acquire));
    const std::uint64_t address = anvil.address.load(std::memory_order_relaxed);
    bool posted = true;
    if (key.value != 0) {
      constexpr std::array<std::uint32_t, 4> kLengths{kHammeredBytes, kHammeredBytes, 65'536, 8};
      const std::uint32_t n = kLengths[random_() % kLengths.size()];
      const std::uint64_t offset = n == kHammeredBytes ? 0 : random_() % (kHammeredBytes - n);
      posted = qp.post_write(region_.sge(0, n), {address + offset, key}).has_value();
    }
    std::array<Completion, 16> completions;
    cq.poll(completions);
    return posted;
  }

 private:
  GuardedMemory source_{MemoryKind::kArena, kHammeredBytes};
  verbs::MemoryRegion region_;
  std::mt19937 random_{7};
};

/// The owner's look at bytes that change behind its back.
class Hammered {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Hammered(std::span<std::byte> bytes) : bytes_(bytes) {}

  std::byte* data() const { return bytes_.data(); }
  void fill(std::byte value) const { std::fill(bytes_.begin(), bytes_.end(), value); }
  bool is_all(std::byte value) const {
    const volatile std::byte* at = bytes_.data();
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      if (at[i] != value) return false;
    }
    return true;
  }
  /// Until a write has come; false: none did. The owner polls, or its helper would take its time
  /// for what the writer reports about keys that were refused.
  bool wait_for_writes(const verbs::CompletionQueue& cq) const {
    const volatile std::byte* at = bytes_.data() + bytes_.size() / 2;
    const auto give_up = Clock::now() + 10s;
    while (*at != kHammer) {
      if (Clock::now() > give_up) return false;
      cq.poll({});
    }
    return true;
  }
  static void spin(std::chrono::microseconds pause) {
    const auto until = Clock::now() + pause;
    while (Clock::now() < until) {
    }
  }
  /// The memory is somebody else's now: it is written anew, and stays as it is.
  bool stays_as_it_is() const {
    // A few bytes first, as a write that is late by microseconds would be behind a whole fill.
    volatile std::byte* at = bytes_.data();
    for (std::size_t i = 0; i < bytes_.size(); i += kStampEvery) at[i] = kMine;
    spin(std::chrono::microseconds(50));
    for (std::size_t i = 0; i < bytes_.size(); i += kStampEvery) {
      if (at[i] != kMine) return false;
    }
    fill(kMine);
    return is_all(kMine) && is_all(kMine);
  }

 private:
  static constexpr std::byte kMine{0xC3};
  static constexpr std::size_t kStampEvery = 2048;
  std::span<std::byte> bytes_;
};

}  // namespace weft::test

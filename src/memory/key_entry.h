// One key as whoever checks it sees it. The table that owns the key (memory/key_table.h) and what a
// process shows of it to others (host/public_tables.h) have the same fields, and the rules of what
// a key allows are here, for both. An entry is type-stable. While its control word says that the
// key is live the other fields are constant: the owner makes the word dead first, and waits for all
// who have published the entry (memory/flight.h) before it changes them. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "weft/access.h"
#include "weft/types.h"

namespace weft::memory {

struct KeyEntry {
  std::atomic<std::uint32_t> control{0};  ///< tag and flags; release at bind, acquire in checks
  std::atomic<std::uint32_t> version{0};  ///< advances with every change of control
  PdId pd;
  Access access = Access::kNone;
  std::uint64_t base = 0;  ///< first address as users of the key count
  std::uint64_t length = 0;
  std::uint64_t target = 0;  ///< what `base` stands for, in the owner's memory
  Qpn qpn;                   ///< whom a type-2 window serves; kAnyQueuePair: no window of type 2

  static constexpr Qpn kAnyQueuePair{~std::uint32_t{0}};

  // Bits of the control word above the tag.
  static constexpr std::uint32_t kTagMask = 0xFF;
  static constexpr std::uint32_t kTaken = 1U << 8;        ///< a region or window has the slot
  static constexpr std::uint32_t kWindow = 1U << 9;       ///< it is a window
  static constexpr std::uint32_t kLocalLive = 1U << 10;   ///< the local key works
  static constexpr std::uint32_t kRemoteLive = 1U << 11;  ///< the remote key works
  /// Whoever uses the remote key, here or in another process, checks it behind a fence of its own,
  /// so that revoking it takes no barrier over all processors, which is a system call: windows and
  /// one-shot keys, which live shortly, and regions that let no peer in anyway.
  static constexpr std::uint32_t kFenced = 1U << 12;

  bool is_live(LocalKey lkey) const {
    // acquire pairs with the release in register_region(): live means that the fields are there.
    return (control.load(std::memory_order_acquire) & (kLocalLive | kTagMask)) ==
           (kLocalLive | (lkey.value & kTagMask));
  }
  /// Ask after the entry was published: what says yes stays so until that is cleared.
  bool is_live(RemoteKey rkey) const {
    constexpr std::uint32_t kWanted = kRemoteLive | kTagMask;
    const std::uint32_t live = kRemoteLive | (rkey.value & kTagMask);
    // acquire pairs with the release in register_region() and finish_bind().
    const std::uint32_t seen = control.load(std::memory_order_acquire);
    if ((seen & (kWanted | kFenced)) == live) [[likely]]
      return true;
    if ((seen & kFenced) == 0) return false;
    // This look has told only that a fence is needed; its partner is in Flight::drain_fenced().
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return (control.load(std::memory_order_acquire) & kWanted) == live;
  }
  bool is_fenced() const { return (control.load(std::memory_order_relaxed) & kFenced) != 0; }
};

/// Whether [address, address + length) lies in [base, base + size), without overflow.
inline bool inside(std::uint64_t address, std::uint64_t length, std::uint64_t base,
                   std::uint64_t size) {
  const std::uint64_t offset = address - base;
  return offset <= size && length <= size - offset;
}

/// What a request wants to do at its target.
struct RemoteAccess {
  PdId pd;
  Qpn qpn;
  std::uint64_t address;
  std::uint64_t length;
  Access need;
  std::uint64_t use;  ///< names one whole operation, retransmissions included; not 0
};

/// Whether a live remote key allows it; a one-shot key is still to be claimed. `Key` is an entry of
/// this process, or a copy of one that another process shows.
template <class Key>
bool allows(const Key& key, const RemoteAccess& access) {
  return key.pd == access.pd && (key.qpn == KeyEntry::kAnyQueuePair || key.qpn == access.qpn) &&
         inside(access.address, access.length, key.base, key.length) &&
         has(key.access, access.need);
}

}  // namespace weft::memory

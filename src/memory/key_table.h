// Regions and windows of one device context, by key: who may touch which bytes. Checks are
// lock-free and short; mutations take one lock. Any thread. Regions, windows and their Vmms belong
// to the caller; the table outlives every thread that checks keys in it. A check leaves the entry
// published in the calling thread's Flight word when it succeeds: the caller copies, then clears.
// No thread calls a mutating function between the two.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tl/expected.hpp>

#include "base/lock.h"
#include "base/permutation24.h"
#include "base/random.h"
#include "base/slot_table.h"
#include "memory/flight.h"
#include "memory/key_entry.h"
#include "memory/vmm.h"
#include "weft/access.h"
#include "weft/result.h"
#include "weft/types.h"

namespace weft::memory {

/// What lets a peer change memory; it needs the local right to do so.
inline constexpr Access kRemoteChange = Access::kRemoteWrite | Access::kRemoteAtomic;

enum class AccessError : std::uint8_t {
  kBadKey,          ///< no such slot, or not a key for this use
  kStale,           ///< the slot lives, or lived, under another tag
  kWrongDomain,     ///< protection domain differs
  kWrongQueuePair,  ///< a type-2 window bound to another queue pair
  kOutOfRange,      ///< at least one byte outside
  kNoRights,        ///< the key does not allow this kind of access
  kSpent,           ///< a one-shot key that served another operation
  kNotBound,        ///< a window that protects nothing at the moment
  kFault,           ///< the memory behind the key is gone
};
std::string_view to_string(AccessError error);

/// The address space of a process without its last byte: more has no length of 64 bits.
inline constexpr std::uint64_t kWholeSpace = ~std::uint64_t{0};

struct RegionSpec {
  Vmm* vmm;
  PdId pd;
  std::uint64_t address;
  std::uint64_t length;
  Access access;
  std::optional<std::uint64_t> iova;
  /// All of the Vmm's memory, now and later: address 0, length kWholeSpace. What is not there is
  /// found out by whoever uses or binds it.
  bool implicit = false;

  static RegionSpec whole_space(Vmm* vmm, PdId pd, Access access) {
    return {vmm, pd, 0, kWholeSpace, access, std::nullopt, true};
  }
};

struct RegionKeys {
  LocalKey lkey;
  RemoteKey rkey;
  std::uint64_t iova;  ///< the address that peers and gather lists use
};

enum class WindowType : std::uint8_t { kType1, kType2 };

struct BindSpec {
  RemoteKey window;      ///< the window's present key
  std::uint8_t new_tag;  ///< type 2: the consumer's
  LocalKey region;
  std::uint64_t address;  ///< in the region's iova range
  std::uint64_t length;   ///< 0: unbind (type 1; a type-2 window is invalidated)
  Access access;
  PdId pd;
  Qpn qpn;
};

class KeyPublisher;

class KeyTable {
 public:
  explicit KeyTable(base::Random& random, std::uint32_t max_keys = 1U << 20);

  /// Before the first key. The publisher outlives the table's last mutation.
  void set_publisher(KeyPublisher* publisher) { publisher_ = publisher; }
  const base::Permutation24& hidden() const { return hidden_; }

  Result<RegionKeys> register_region(const RegionSpec& spec);
  /// Returns when no access through its keys is under way any more; so do the other revocations.
  Result<void> deregister_region(LocalKey lkey);

  /// Another range, other rights, another domain under the same keys. What is refused changes
  /// nothing; kBusy while windows are bound to the region.
  Result<RegionKeys> reregister_region(LocalKey lkey, const RegionSpec& spec);

  Result<RemoteKey> allocate_window(PdId pd, WindowType type);
  Result<void> deallocate_window(RemoteKey rkey);
  /// Work of the send queue. What the caller may not touch or bind is an invalid argument.
  Result<RemoteKey> bind(const BindSpec& spec);
  /// For owners that let go without asking: takes every window off the region, then deregisters it.
  void revoke_region(LocalKey lkey);
  /// Deallocates the window that `rkey` names or, before or after a bind, named.
  void revoke_window(RemoteKey rkey);
  /// The key that a type-1 window has after its next bind or unbind.
  static RemoteKey next_key(RemoteKey rkey) {
    return RemoteKey((rkey.value & ~KeyEntry::kTagMask) | next_tag(rkey.value));
  }
  /// Local or remote invalidate: type-2 windows, and one-shot keys.
  Result<void> invalidate(RemoteKey rkey, PdId pd, Qpn qpn);

  /// Length > 0 in both: a transfer of nothing needs no key.
  tl::expected<Place, AccessError> check_local(LocalKey lkey, PdId pd, std::uint64_t address,
                                               std::uint64_t length, Intent intent, Hold hold);
  /// Publishes under Hold::kRemote.
  tl::expected<Place, AccessError> check_remote(RemoteKey rkey, const RemoteAccess& access);
  // The same for memory that is used later: the key is kept (Flight::keep) until the caller calls
  // Flight::release_kept(), also when it was refused. The caller has seen to it that there is room.
  tl::expected<Place, AccessError> keep_local(LocalKey lkey, PdId pd, std::uint64_t address,
                                              std::uint64_t length, Intent intent);
  tl::expected<Place, AccessError> keep_remote(RemoteKey rkey, const RemoteAccess& access);

  struct alignas(64) Entry : KeyEntry {
    Vmm* vmm = nullptr;
    std::atomic<std::uint64_t> claim{0};  ///< one-shot: the use that it serves

    // From here on under lock_.
    std::uint32_t bound_windows = 0;  ///< regions
    bool implicit = false;            ///< regions: nobody has looked at the memory yet
    std::uint32_t region = kNoSlot;   ///< windows: what they are bound to
    WindowType type = WindowType::kType1;
    bool busy = false;  ///< a mutation is between two critical sections
  };
  static constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};
  static constexpr std::uint64_t kUnclaimed = 0;

  // The same checks for a caller that publishes by itself and remembers where a key is: find the
  // entry (null: no such key), publish it, order, then ask. Entries are type-stable, so one that
  // was found once may be asked again and again; it says no when the key has gone.
  Entry* find(LocalKey lkey) const { return slots_.at(lkey.value >> 8); }
  Entry* find(RemoteKey rkey) const { return slots_.at(slot_of(rkey)); }
  static bool allows_local(const Entry& entry, LocalKey lkey, PdId pd, std::uint64_t address,
                           std::uint64_t length, Intent intent, Place* place);
  static bool allows_remote(Entry& entry, RemoteKey rkey, const RemoteAccess& access, Place* place);

  std::uint32_t live_regions() const { return regions_.load(std::memory_order_relaxed); }
  std::uint32_t live_windows() const { return windows_.load(std::memory_order_relaxed); }

 private:
  // Key 0 means "no key" to many programs, so no tag of weft's choice is 0.
  static std::uint32_t next_tag(std::uint32_t control) {
    const std::uint32_t tag = (control + 1) & KeyEntry::kTagMask;
    return tag == 0 ? 1 : tag;
  }

  struct Binding;
  Result<std::uint64_t> choose_iova(const RegionSpec& spec);
  /// What stands at the region's first byte, for users of its keys.
  Result<std::uint64_t> check_region(const RegionSpec& spec);
  /// What the control word of a region that works has above the tag.
  static std::uint32_t live_bits(Access access) {
    constexpr Access kPeers = Access::kRemoteRead | Access::kRemoteWrite | Access::kRemoteAtomic;
    constexpr std::uint32_t kLive = KeyEntry::kTaken | KeyEntry::kLocalLive | KeyEntry::kRemoteLive;
    return has_any(access, kPeers) && !has(access, Access::kOneShot) ? kLive
                                                                     : kLive | KeyEntry::kFenced;
  }
  static void describe(Entry& entry, const RegionSpec& spec, std::uint64_t iova);
  /// The caller is the one who changes it until it clears `busy`.
  static Result<void> reserve_region_locked(Entry* entry, LocalKey lkey);
  Result<Entry*> window_locked(RemoteKey rkey);
  Result<Binding> begin_bind(const BindSpec& spec);
  Result<RemoteKey> finish_bind(const BindSpec& spec, const Binding& binding);
  void abandon_bind(const Binding& binding);
  void unbind_locked(Entry& window);
  void retire(std::uint32_t slot, Entry& entry, std::uint32_t control_before);
  /// Claims a one-shot key for this use, or finds that it did so before.
  static bool claim(Entry& entry, std::uint64_t use);
  /// The one way to change an entry's state: whoever remembers something about it finds out.
  void set_control(std::uint32_t slot, Entry& entry, std::uint32_t control,
                   std::memory_order order);
  /// Waits until nobody works under the entry, which is dead and had this control word before.
  void drain(std::uint32_t slot, const Entry& entry, std::uint32_t control_before);
  /// A slot that others can be shown; nullptr when there is none.
  Entry* acquire(std::uint32_t* slot);
  static AccessError why_not_local(const Entry& entry, LocalKey lkey, PdId pd,
                                   std::uint64_t address, std::uint64_t length);
  static AccessError why_not_remote(const Entry& entry, RemoteKey rkey, const RemoteAccess& access);
  static AccessError why_not_live(std::uint32_t control, std::uint32_t tag, std::uint32_t live_bit);
  RemoteKey remote_key(std::uint32_t slot, std::uint32_t tag) const {
    return RemoteKey(hidden_.forward(slot) << 8 | tag);
  }
  std::uint32_t slot_of(RemoteKey rkey) const { return hidden_.backward(rkey.value >> 8); }

  base::Random& random_;
  const base::Permutation24 hidden_;
  base::SlotTable<Entry> slots_;
  base::Lock lock_;
  KeyPublisher* publisher_ = nullptr;
  std::atomic<std::uint32_t> regions_{0}, windows_{0};
};

/// Shows the entries to other processes, and knows what those are working on. Called with the
/// table's lock held, or by the one who made the entry busy; drain() without the lock.
class KeyPublisher {
 public:
  virtual ~KeyPublisher() = default;
  /// Room for this slot; false when there is no memory.
  virtual bool prepare(std::uint32_t slot) = 0;
  virtual void show(std::uint32_t slot, const KeyTable::Entry& entry) = 0;
  /// `fenced`: the key was marked so (KeyEntry::kFenced) while it lived.
  virtual void drain(std::uint32_t slot, bool fenced) = 0;
};

inline bool KeyTable::allows_local(const Entry& entry, LocalKey lkey, PdId pd,
                                   std::uint64_t address, std::uint64_t length, Intent intent,
                                   Place* place) {
  if (!entry.is_live(lkey) || entry.pd != pd ||
      !inside(address, length, entry.base, entry.length) ||
      (intent == Intent::kWrite && !has(entry.access, Access::kLocalWrite))) [[unlikely]] {
    return false;
  }
  *place = {entry.vmm, entry.target + (address - entry.base)};
  return true;
}

inline bool KeyTable::allows_remote(Entry& entry, RemoteKey rkey, const RemoteAccess& access,
                                    Place* place) {
  if (!entry.is_live(rkey) || !allows(entry, access)) [[unlikely]]
    return false;
  // Last of all, so that a refused attempt does not consume the key.
  if (has(entry.access, Access::kOneShot) && !claim(entry, access.use)) [[unlikely]]
    return false;
  *place = {entry.vmm, entry.target + (access.address - entry.base)};
  return true;
}

}  // namespace weft::memory

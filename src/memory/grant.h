// A remembered permission: what one check of a key found, good until the key's entry changes in any
// way. Programs use few keys, each many times; with a grant the second use costs a comparison and a
// range check. Owned by the path that asked, guarded by the lock of its queue pair.
#pragma once

#include <cstdint>

#include "memory/key_table.h"

namespace weft::memory {

/// What every grant has, whether the key's entry is of this process or shown by another.
template <class Key>
struct GrantedRange {
  Key key;
  std::uint32_t version = 0;
  const KeyEntry* entry = nullptr;
  std::uint64_t base = 1;  ///< above `end`: nothing is remembered
  std::uint64_t end = 0;   ///< behind the last byte; a range that ends at 2^64 is not remembered

  /// Worth publishing `entry` for: the key is the remembered one and the range fits.
  bool covers(Key wanted, std::uint64_t address, std::uint64_t n) const {
    return wanted == key && address >= base && address <= end && n <= end - address;
  }
  /// Still true? Ask after the entry was published. acquire: the entry's fields are not needed, but
  /// what its owner wrote before it changed the entry is.
  bool holds() const { return entry->version.load(std::memory_order_acquire) == version; }

  /// False, and nothing is remembered: the range ends at 2^64.
  bool remember(Key found, const KeyEntry& at, std::uint32_t seen_version, std::uint64_t first,
                std::uint64_t length) {
    if (first + length < first || first + length == 0) return false;
    key = found;
    entry = &at;
    version = seen_version;
    base = first;
    end = first + length;
    return true;
  }
};

/// Of this process's memory, for places of an identity Vmm and for keys that are not one-shot:
/// anything else is never remembered, and is checked each time.
template <class Key>
struct Grant : GrantedRange<Key> {
  std::uint64_t shift = 0;  ///< place - address

  /// Of a key that is checked behind a fence (KeyEntry::kFenced), only the entry is remembered: its
  /// fields are there to be read once it was published, a fence followed, and it still holds.
  bool is_fenced(Key wanted) const {
    return this->entry != nullptr && this->base > this->end && wanted == this->key;
  }
  std::byte* at(std::uint64_t address) const {
    return reinterpret_cast<std::byte*>(address + shift);
  }
};

/// What the owner may do with a local key, or a peer with a remote one, to be remembered. Takes the
/// version before it looks, so that a change in between makes the grant useless, not wrong.
Grant<LocalKey> grant_local(KeyTable& table, LocalKey lkey, PdId pd, Intent intent);
Grant<RemoteKey> grant_remote(KeyTable& table, RemoteKey rkey, PdId pd, Qpn qpn, Access need);

}  // namespace weft::memory

#include "memory/grant.h"

namespace weft::memory {
namespace {

template <class Key>
Grant<Key> make(Key key, KeyTable::Entry& entry, std::uint32_t version, const Place& first) {
  Grant<Key> grant;
  const std::uint64_t end = entry.base + entry.length;
  if (!first.vmm->identity() || has(entry.access, Access::kOneShot) || end == 0) return grant;
  grant.key = key;
  grant.version = version;
  grant.entry = &entry;
  grant.base = entry.base;
  grant.end = end;
  grant.shift = entry.target - entry.base;
  return grant;
}

}  // namespace

Grant<LocalKey> grant_local(KeyTable& table, LocalKey lkey, PdId pd, Intent intent) {
  KeyTable::Entry* entry = table.find(lkey);
  if (entry == nullptr) return {};
  const Flight::Scope flight(Hold::kLocal, entry);
  const std::uint32_t version = entry->version.load(std::memory_order_acquire);
  Place first;
  // Liveness first: only then are base and length there to be read.
  if (!KeyTable::live_local(*entry, lkey) ||
      !KeyTable::allows_local(*entry, lkey, pd, entry->base, 1, intent, &first)) {
    return {};
  }
  return make(lkey, *entry, version, first);
}

Grant<RemoteKey> grant_remote(KeyTable& table, RemoteKey rkey, PdId pd, Qpn qpn, Access need) {
  KeyTable::Entry* entry = table.find(rkey);
  if (entry == nullptr) return {};
  const Flight::Scope flight(Hold::kRemote, entry);
  const std::uint32_t version = entry->version.load(std::memory_order_acquire);
  Place first;
  // A one-shot key must not be claimed by looking at it.
  if (!KeyTable::live_remote(*entry, rkey) || has(entry->access, Access::kOneShot) ||
      !KeyTable::allows_remote(*entry, rkey, {pd, qpn, entry->base, 1, need, 0}, &first)) {
    return {};
  }
  auto grant = make(rkey, *entry, version, first);
  const std::uint32_t control = entry->control.load(std::memory_order_relaxed);
  if ((control & KeyTable::kFenced) != 0) grant.base = 1, grant.end = 0;
  return grant;
}

}  // namespace weft::memory

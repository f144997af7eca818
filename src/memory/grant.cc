#include "memory/grant.h"

namespace weft::memory {
namespace {

template <class Key>
Grant<Key> make(Key key, const KeyTable::Entry& entry, std::uint32_t version) {
  Grant<Key> grant;
  if (entry.vmm->identity() && !has(entry.access, Access::kOneShot) &&
      grant.remember(key, entry, version, entry.base, entry.length)) {
    grant.shift = entry.target - entry.base;
  }
  return grant;
}

}  // namespace

Grant<LocalKey> grant_local(KeyTable& table, LocalKey lkey, PdId pd, Intent intent) {
  const KeyTable::Entry* entry = table.find(lkey);
  if (entry == nullptr) return {};
  const Flight::Scope flight(Hold::kLocal, entry);
  const std::uint32_t version = entry->version.load(std::memory_order_acquire);
  Place first;
  // Liveness first: only then are base and length there to be read.
  if (!entry->is_live(lkey) ||
      !KeyTable::allows_local(*entry, lkey, pd, entry->base, 1, intent, &first)) {
    return {};
  }
  return make(lkey, *entry, version);
}

Grant<RemoteKey> grant_remote(KeyTable& table, RemoteKey rkey, PdId pd, Qpn qpn, Access need) {
  const KeyTable::Entry* entry = table.find(rkey);
  if (entry == nullptr) return {};
  const Flight::Scope flight(Hold::kRemote, entry);
  const std::uint32_t version = entry->version.load(std::memory_order_acquire);
  // The rule alone: a one-shot key must not be claimed by looking at it.
  if (!entry->is_live(rkey) || !allows(*entry, {pd, qpn, entry->base, 1, need, 0})) return {};
  auto grant = make(rkey, *entry, version);
  if (entry->is_fenced()) grant.base = 1, grant.end = 0;
  return grant;
}

}  // namespace weft::memory

#include "path/neighbour_target.h"

namespace weft::path {
namespace {

/// Read once: the owner may be hostile and change it between two looks.
template <class T>
T load_once(const T& field) {
  T value;
  __atomic_load(&field, &value, __ATOMIC_RELAXED);
  return value;
}

/// What an entry of the peer said.
struct KeyCopy {
  PdId pd;
  Qpn qpn;
  Access access;
  std::uint64_t base, length, target, arena_offset;
  std::uint32_t arena;
  std::uint32_t version;
  bool fenced;
};

/// False: the key is dead.
bool copy_live(const host::PublicKey& entry, RemoteKey key, KeyCopy* out) {
  out->version = entry.version.load(std::memory_order_acquire);
  if (!entry.is_live(key)) return false;
  out->fenced = entry.is_fenced();
  out->pd = load_once(entry.pd);
  out->qpn = load_once(entry.qpn);
  out->access = load_once(entry.access);
  out->base = load_once(entry.base);
  out->length = load_once(entry.length);
  out->target = load_once(entry.target);
  out->arena = load_once(entry.arena);
  out->arena_offset = load_once(entry.arena_offset);
  return true;
}

/// Where the range is in this process; nullptr when it is not in an arena that we have.
std::byte* mapped_at(host::Outbound& link, const KeyCopy& key) {
  if (key.arena == 0) return nullptr;
  const std::span<std::byte> arena = link.arena(key.arena);
  return memory::inside(key.arena_offset, key.length, 0, arena.size())
             ? arena.data() + key.arena_offset
             : nullptr;
}

}  // namespace

TargetPlace check_target(host::Outbound& link, const TargetPeer& peer, host::FlightSlot& slot,
                         RemoteKey key, const memory::RemoteAccess& access) {
  TargetPlace place;
  if (link.owner_checks) {
    place.verdict = TargetPlace::Verdict::kOwnerMustExecute;
    return place;
  }
  std::uint32_t number = 0;
  const host::PublicKey* entry = link.tables.key(key, &number);
  if (entry == nullptr || !has(peer.access, access.need)) return place;
  slot.put(host::FlightUse::kKey, host::flight_word(link.tables.tag(), false, number));
  host::flight_order(link.fence);
  KeyCopy found;
  if (!copy_live(*entry, key, &found) || !memory::allows(found, access)) return place;
  if (has(found.access, Access::kOneShot)) {
    place.verdict = TargetPlace::Verdict::kOwnerMustExecute;
    return place;
  }
  place.verdict = TargetPlace::Verdict::kAllowed;
  const std::uint64_t offset = access.address - found.base;
  place.address = found.target + offset;
  if (std::byte* base = mapped_at(link, found)) place.mapped = base + offset;
  return place;
}

TargetGrant grant_target(host::Outbound& link, const TargetPeer& peer, RemoteKey key, Access need) {
  TargetGrant grant;
  if (link.owner_checks) return grant;
  std::uint32_t number = 0;
  const host::PublicKey* entry = link.tables.key(key, &number);
  KeyCopy found;
  if (entry == nullptr || !has(peer.access, need) || !copy_live(*entry, key, &found) ||
      !memory::allows(found, peer.request(found.base, 0, need)) ||
      has(found.access, Access::kOneShot) || found.qpn != memory::KeyEntry::kAnyQueuePair) {
    return grant;
  }
  // Before the look: one that comes or goes meanwhile is noticed at the first use.
  grant.arenas_changed = link.arenas_changed.load(std::memory_order_acquire);
  grant.mapped = mapped_at(link, found);
  if ((grant.mapped == nullptr && !link.can_copy()) ||
      !grant.remember(key, *entry, found.version, found.base, found.length)) {
    return {};
  }
  grant.flight = host::flight_word(link.tables.tag(), false, number);
  grant.target = found.target;
  grant.fence = link.fence || found.fenced;
  return grant;
}

}  // namespace weft::path

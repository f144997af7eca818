#include "path/neighbour_target.h"

#include "memory/key_table.h"

namespace weft::path {
namespace {

using memory::KeyTable;

/// An entry, read once: its owner may be hostile and change it at any time.
struct KeyCopy {
  std::uint32_t version;
  std::uint64_t base, length, target, arena_offset;
  std::uint32_t arena;
  Access access;
  bool fenced;
  bool one_queue_pair;  ///< a window of type 2
};

/// The control word of an entry whose key lives; 0: it does not.
std::uint32_t live_control(const host::PublicKey& entry, RemoteKey key) {
  const std::uint32_t control = entry.control.load(std::memory_order_acquire);
  constexpr std::uint32_t kWanted = KeyTable::kRemoteLive | KeyTable::kTagMask;
  const bool lives =
      (control & kWanted) == (KeyTable::kRemoteLive | (key.value & KeyTable::kTagMask));
  return lives ? control : 0;
}

bool copy_live(const host::PublicKey& entry, RemoteKey key, const TargetPeer& peer, Access need,
               KeyCopy* out) {
  out->version = entry.version.load(std::memory_order_acquire);
  std::uint32_t control = live_control(entry, key);
  if ((control & KeyTable::kFenced) != 0) {
    // Whoever revokes it counts on our fence between the flight word and this look; what was seen
    // before the fence was only that one is needed.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    control = live_control(entry, key);
  }
  if (control == 0) return false;
  out->fenced = (control & KeyTable::kFenced) != 0;
  out->base = entry.base;
  out->length = entry.length;
  out->target = entry.target;
  out->arena = entry.arena;
  out->arena_offset = entry.arena_offset;
  out->access = static_cast<Access>(entry.access);
  const std::uint32_t qpn = entry.qpn;
  out->one_queue_pair = qpn != KeyTable::kAnyQueuePair.value;
  return entry.pd == peer.pd && has(out->access, need) &&
         (!out->one_queue_pair || qpn == peer.qpn.value);
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
                         const TargetRequest& request) {
  TargetPlace place;
  if (link.owner_checks) {
    place.verdict = TargetPlace::Verdict::kTargetsTask;
    return place;
  }
  std::uint32_t number = 0;
  const host::PublicKey* entry = link.tables.key(request.key, &number);
  if (entry == nullptr || !has(static_cast<Access>(peer.access), request.need)) return place;
  slot.put(host::FlightUse::kKey, host::flight_word(link.tables.tag(), false, number));
  host::flight_order(link.fence);
  KeyCopy key;
  if (!copy_live(*entry, request.key, peer, request.need, &key) ||
      !memory::inside(request.address, request.length, key.base, key.length)) {
    return place;
  }
  if (has(key.access, Access::kOneShot)) {
    place.verdict = TargetPlace::Verdict::kTargetsTask;
    return place;
  }
  place.verdict = TargetPlace::Verdict::kAllowed;
  const std::uint64_t offset = request.address - key.base;
  place.address = key.target + offset;
  if (std::byte* base = mapped_at(link, key)) place.mapped = base + offset;
  return place;
}

TargetGrant grant_target(host::Outbound& link, const TargetPeer& peer, RemoteKey key, Access need) {
  TargetGrant grant;
  if (link.owner_checks) return grant;
  std::uint32_t number = 0;
  const host::PublicKey* entry = link.tables.key(key, &number);
  KeyCopy copied;
  if (entry == nullptr || !has(static_cast<Access>(peer.access), need) ||
      !copy_live(*entry, key, peer, need, &copied) || has(copied.access, Access::kOneShot) ||
      copied.one_queue_pair) {
    return grant;
  }
  // Before the look: one that goes meanwhile is noticed at the first use.
  grant.arenas_gone = link.arenas_gone.load(std::memory_order_acquire);
  std::byte* mapped = mapped_at(link, copied);
  const std::uint64_t end = copied.base + copied.length;
  if (end < copied.base || (mapped == nullptr && !link.can_copy())) return grant;
  grant.key = key;
  grant.version = copied.version;
  grant.flight = host::flight_word(link.tables.tag(), false, number);
  grant.entry = entry;
  grant.base = copied.base;
  grant.end = end;
  grant.mapped = mapped;
  grant.target = copied.target;
  grant.fence = link.fence || copied.fenced;
  return grant;
}

}  // namespace weft::path

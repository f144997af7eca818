// The hot half of KeyTable: one look at an entry, without a lock. Publish first, check then: an
// entry found live stays as it is until this thread clears its Flight word, because revocation
// marks the entry dead and then waits for exactly that. Only a refusal asks what the reason was.
#include "base/assert.h"
#include "memory/key_table.h"

namespace weft::memory {

bool KeyTable::claim(Entry& entry, std::uint64_t use) {
  WEFT_ASSERT(use != kUnclaimed);
  std::uint64_t claimed = kUnclaimed;
  // Relaxed: the word decides who is first and carries nothing else.
  return entry.claim.compare_exchange_strong(claimed, use, std::memory_order_relaxed) ||
         claimed == use;
}

AccessError KeyTable::why_not_live(std::uint32_t control, std::uint32_t tag,
                                   std::uint32_t live_bit) {
  if (control == 0) return AccessError::kBadKey;
  if ((control & KeyEntry::kTaken) == 0 || (control & KeyEntry::kTagMask) != tag)
    return AccessError::kStale;
  if ((control & KeyEntry::kWindow) == 0) return AccessError::kStale;
  return live_bit == KeyEntry::kLocalLive ? AccessError::kBadKey : AccessError::kNotBound;
}

AccessError KeyTable::why_not_local(const Entry& entry, LocalKey lkey, PdId pd,
                                    std::uint64_t address, std::uint64_t length) {
  const std::uint32_t control = entry.control.load(std::memory_order_acquire);
  const std::uint32_t tag = lkey.value & KeyEntry::kTagMask;
  if ((control & (KeyEntry::kLocalLive | KeyEntry::kTagMask)) != (KeyEntry::kLocalLive | tag)) {
    return why_not_live(control, tag, KeyEntry::kLocalLive);
  }
  if (entry.pd != pd) return AccessError::kWrongDomain;
  if (!inside(address, length, entry.base, entry.length)) return AccessError::kOutOfRange;
  return AccessError::kNoRights;
}

AccessError KeyTable::why_not_remote(const Entry& entry, RemoteKey rkey,
                                     const RemoteAccess& access) {
  const std::uint32_t control = entry.control.load(std::memory_order_acquire);
  const std::uint32_t tag = rkey.value & KeyEntry::kTagMask;
  if ((control & (KeyEntry::kRemoteLive | KeyEntry::kTagMask)) != (KeyEntry::kRemoteLive | tag)) {
    return why_not_live(control, tag, KeyEntry::kRemoteLive);
  }
  if (entry.pd != access.pd) return AccessError::kWrongDomain;
  if (entry.qpn != KeyEntry::kAnyQueuePair && entry.qpn != access.qpn)
    return AccessError::kWrongQueuePair;
  if (!inside(access.address, access.length, entry.base, entry.length)) {
    return AccessError::kOutOfRange;
  }
  return has(entry.access, access.need) ? AccessError::kSpent : AccessError::kNoRights;
}

tl::expected<Place, AccessError> KeyTable::check_local(LocalKey lkey, PdId pd,
                                                       std::uint64_t address, std::uint64_t length,
                                                       Intent intent, Hold hold) {
  const Entry* entry = find(lkey);
  if (entry == nullptr) [[unlikely]]
    return tl::unexpected(AccessError::kBadKey);
  Flight::publish(hold, entry);
  Place place;
  if (allows_local(*entry, lkey, pd, address, length, intent, &place)) [[likely]]
    return place;
  const AccessError error = why_not_local(*entry, lkey, pd, address, length);
  Flight::clear(hold);
  return tl::unexpected(error);
}

tl::expected<Place, AccessError> KeyTable::check_remote(RemoteKey rkey,
                                                        const RemoteAccess& access) {
  Entry* entry = find(rkey);
  if (entry == nullptr) [[unlikely]]
    return tl::unexpected(AccessError::kBadKey);
  Flight::publish(Hold::kRemote, entry);
  Place place;
  if (allows_remote(*entry, rkey, access, &place)) [[likely]]
    return place;
  const AccessError error = why_not_remote(*entry, rkey, access);
  Flight::clear(Hold::kRemote);
  return tl::unexpected(error);
}

tl::expected<Place, AccessError> KeyTable::keep_local(LocalKey lkey, PdId pd, std::uint64_t address,
                                                      std::uint64_t length, Intent intent) {
  const Entry* entry = find(lkey);
  if (entry == nullptr) [[unlikely]]
    return tl::unexpected(AccessError::kBadKey);
  Flight::keep(entry);
  Place place;
  if (allows_local(*entry, lkey, pd, address, length, intent, &place)) [[likely]]
    return place;
  return tl::unexpected(why_not_local(*entry, lkey, pd, address, length));
}

tl::expected<Place, AccessError> KeyTable::keep_remote(RemoteKey rkey, const RemoteAccess& access) {
  Entry* entry = find(rkey);
  if (entry == nullptr) [[unlikely]]
    return tl::unexpected(AccessError::kBadKey);
  Flight::keep(entry);
  Place place;
  if (allows_remote(*entry, rkey, access, &place)) [[likely]]
    return place;
  return tl::unexpected(why_not_remote(*entry, rkey, access));
}

}  // namespace weft::memory

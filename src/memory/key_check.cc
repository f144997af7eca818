// The hot half of KeyTable: one look at an entry, without a lock. Publish first, check then: an
// entry found live stays as it is until this thread clears its Flight word, because revocation
// marks the entry dead and then waits for exactly that.
#include "base/assert.h"
#include "memory/key_table.h"

namespace weft::memory {
namespace {

tl::unexpected<AccessError> refuse(Hold hold, AccessError error) {
  Flight::clear(hold);
  return tl::unexpected(error);
}

// Whether [address, address + length) lies in [base, base + size), without overflow.
bool inside(std::uint64_t address, std::uint64_t length, std::uint64_t base, std::uint64_t size) {
  const std::uint64_t offset = address - base;
  return offset <= size && length <= size - offset;
}

}  // namespace

AccessError KeyTable::refusal(std::uint32_t control, std::uint32_t tag, std::uint32_t live_bit,
                              Hold hold) {
  Flight::clear(hold);
  if (control == 0) return AccessError::kBadKey;
  if ((control & kTaken) == 0 || (control & kTagMask) != tag) return AccessError::kStale;
  if ((control & kWindow) == 0) return AccessError::kStale;
  return live_bit == kLocalLive ? AccessError::kBadKey : AccessError::kNotBound;
}

tl::expected<Place, AccessError> KeyTable::check_local(LocalKey lkey, PdId pd,
                                                       std::uint64_t address, std::uint64_t length,
                                                       Intent intent, Hold hold) {
  const Entry* entry = slots_.at(lkey.value >> 8);
  if (entry == nullptr) [[unlikely]]
    return tl::unexpected(AccessError::kBadKey);
  Flight::publish(hold, entry);
  const std::uint32_t tag = lkey.value & kTagMask;
  // acquire pairs with the release in register_region(): live means that the fields are there.
  const std::uint32_t control = entry->control.load(std::memory_order_acquire);
  if ((control & (kLocalLive | kTagMask)) != (kLocalLive | tag)) [[unlikely]] {
    return tl::unexpected(refusal(control, tag, kLocalLive, hold));
  }
  if (entry->pd != pd) [[unlikely]]
    return refuse(hold, AccessError::kWrongDomain);
  if (!inside(address, length, entry->base, entry->length)) [[unlikely]] {
    return refuse(hold, AccessError::kOutOfRange);
  }
  if (intent == Intent::kWrite && !has(entry->access, Access::kLocalWrite)) [[unlikely]] {
    return refuse(hold, AccessError::kNoRights);
  }
  return Place{entry->vmm, entry->target + (address - entry->base)};
}

tl::expected<Place, AccessError> KeyTable::check_remote(RemoteKey rkey,
                                                        const RemoteAccess& access) {
  constexpr Hold kHold = Hold::kRemote;
  Entry* entry = slots_.at(slot_of(rkey));
  if (entry == nullptr) [[unlikely]]
    return tl::unexpected(AccessError::kBadKey);
  Flight::publish(kHold, entry);
  const std::uint32_t tag = rkey.value & kTagMask;
  // acquire pairs with the release in register_region() and finish_bind().
  const std::uint32_t control = entry->control.load(std::memory_order_acquire);
  if ((control & (kRemoteLive | kTagMask)) != (kRemoteLive | tag)) [[unlikely]] {
    return tl::unexpected(refusal(control, tag, kRemoteLive, kHold));
  }
  if (entry->pd != access.pd) [[unlikely]]
    return refuse(kHold, AccessError::kWrongDomain);
  if (entry->qpn != kAnyQueuePair && entry->qpn != access.qpn) [[unlikely]] {
    return refuse(kHold, AccessError::kWrongQueuePair);
  }
  if (!inside(access.address, access.length, entry->base, entry->length)) [[unlikely]] {
    return refuse(kHold, AccessError::kOutOfRange);
  }
  if (!has(entry->access, access.need)) [[unlikely]] {
    return refuse(kHold, AccessError::kNoRights);
  }
  // Last of all, so that a refused attempt does not consume the key.
  if (has(entry->access, Access::kOneShot)) [[unlikely]] {
    WEFT_ASSERT(access.use != kUnclaimed);
    std::uint64_t claimed = kUnclaimed;
    // Relaxed: the word decides who is first and carries nothing else.
    if (!entry->claim.compare_exchange_strong(claimed, access.use, std::memory_order_relaxed) &&
        claimed != access.use) {
      return refuse(kHold, AccessError::kSpent);
    }
  }
  return Place{entry->vmm, entry->target + (access.address - entry->base)};
}

}  // namespace weft::memory

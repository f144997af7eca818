#include "memory/key_table.h"

#include <fmt/format.h>

#include <mutex>

namespace weft::memory {
namespace {

constexpr std::uint64_t kMaxLength = std::uint64_t{1} << 63;
constexpr std::uint64_t kPageMask = 4095;
// An opaque base below 2^62 and a length of at most 2^63 never wrap.
constexpr std::uint64_t kOpaqueMask = ((std::uint64_t{1} << 62) - 1) & ~kPageMask;

bool wraps(std::uint64_t address, std::uint64_t length) { return length - 1 > ~address; }

Result<void> valid(const RegionSpec& spec) {
  if (spec.length == 0) return fail(Errc::kInvalidArgument, "length: a region has at least 1 byte");
  if (spec.implicit) {
    if (spec.address != 0 || spec.length != kWholeSpace || spec.iova.value_or(0) != 0 ||
        has(spec.access, Access::kOpaqueAddress)) {
      return fail(
          Errc::kInvalidArgument,
          "address: an implicit region is the whole address space, under its own addresses");
    }
  } else if (spec.length > kMaxLength || wraps(spec.address, spec.length)) {
    return fail(Errc::kInvalidArgument, "length: the region wraps around the address space");
  }
  if (has_any(spec.access, kRemoteChange) && !has(spec.access, Access::kLocalWrite)) {
    return fail(Errc::kInvalidArgument, "access: remote write and atomic need local write");
  }
  return {};
}

}  // namespace

KeyTable::KeyTable(base::Random& random, std::uint32_t max_keys)
    : random_(random), hidden_(random), slots_(max_keys) {}

void KeyTable::set_control(std::uint32_t slot, Entry& entry, std::uint32_t control,
                           std::memory_order order) {
  entry.control.store(control, order);
  entry.version.fetch_add(1, std::memory_order_release);
  if (publisher_ != nullptr) publisher_->show(slot, entry);
}

void KeyTable::drain(std::uint32_t slot, const Entry& entry, std::uint32_t control_before) {
  const bool fenced = (control_before & KeyEntry::kFenced) != 0;
  const std::uint32_t died = control_before & ~entry.control.load(std::memory_order_relaxed);
  // Nobody fences for a local key: it dies with a region, which is no work of a send queue.
  if (fenced && (died & KeyEntry::kLocalLive) == 0) {
    Flight::drain_fenced(&entry);
  } else {
    Flight::drain(&entry);
  }
  if (publisher_ != nullptr) publisher_->drain(slot, fenced);
}

KeyTable::Entry* KeyTable::acquire(std::uint32_t* slot) {
  Entry* entry = slots_.acquire(slot);
  if (entry == nullptr || publisher_ == nullptr || publisher_->prepare(*slot)) return entry;
  slots_.release(*slot);
  return nullptr;
}

Result<std::uint64_t> KeyTable::choose_iova(const RegionSpec& spec) {
  const bool zero_based = has(spec.access, Access::kZeroBased);
  if (has(spec.access, Access::kOpaqueAddress)) {
    if (zero_based || spec.iova.has_value()) {
      return fail(Errc::kInvalidArgument, "access: an opaque address cannot be chosen");
    }
    const std::lock_guard guard(lock_);
    return random_.draw<std::uint64_t>() & kOpaqueMask;
  }
  const std::uint64_t iova = spec.iova.value_or(zero_based ? 0 : spec.address);
  if (wraps(iova, spec.length)) {
    return fail(Errc::kInvalidArgument, "iova: the region wraps around the address space");
  }
  return iova;
}

Result<std::uint64_t> KeyTable::check_region(const RegionSpec& spec) {
  if (auto ok = valid(spec); !ok) return tl::unexpected(ok.error());
  auto iova = choose_iova(spec);
  if (!iova || spec.implicit) return iova;
  const Intent intent = has(spec.access, Access::kLocalWrite) ? Intent::kWrite : Intent::kRead;
  if (const Fault fault = spec.vmm->check(spec.address, spec.length, intent);
      fault != Fault::kNone) {
    return fail(Errc::kBadAddress, fmt::format("address: {} bytes at {:#x}: {}", spec.length,
                                               spec.address, to_string(fault)));
  }
  return iova;
}

void KeyTable::describe(Entry& entry, const RegionSpec& spec, std::uint64_t iova) {
  entry.pd = spec.pd;
  entry.base = iova;
  entry.length = spec.length;
  entry.target = spec.address;
  entry.vmm = spec.vmm;
  entry.access = spec.access;
  entry.qpn = KeyEntry::kAnyQueuePair;
  entry.implicit = spec.implicit;
  entry.claim.store(kUnclaimed, std::memory_order_relaxed);
}

Result<RegionKeys> KeyTable::register_region(const RegionSpec& spec) {
  const auto iova = check_region(spec);
  if (!iova) return tl::unexpected(iova.error());
  const std::lock_guard guard(lock_);
  std::uint32_t slot = 0;
  Entry* entry = acquire(&slot);
  if (entry == nullptr) {
    return fail(
        Errc::kOutOfMemory,
        fmt::format("all {} keys are in use, or no memory is left for one", slots_.capacity()));
  }
  const std::uint32_t tag = next_tag(entry->control.load(std::memory_order_relaxed));
  describe(*entry, spec, *iova);
  set_control(slot, *entry, tag | live_bits(spec.access), std::memory_order_release);
  regions_.fetch_add(1, std::memory_order_relaxed);
  return RegionKeys{LocalKey(slot << 8 | tag), remote_key(slot, tag), *iova};
}

// Called without the lock, with the entry dead and busy: waits for those at work, frees the slot.
void KeyTable::retire(std::uint32_t slot, Entry& entry, std::uint32_t control_before) {
  drain(slot, entry, control_before);
  // Only now does a window's region become free: until here it was reached through the window.
  const std::lock_guard guard(lock_);
  unbind_locked(entry);
  entry.busy = false;
  // With the last tag the slot has given out all its keys: the next ones would be old ones.
  using Wear = base::SlotTable<Entry>::Wear;
  const std::uint32_t tag = entry.control.load(std::memory_order_relaxed) & KeyEntry::kTagMask;
  slots_.release(slot, tag == KeyEntry::kTagMask ? Wear::kWorn : Wear::kNone);
}

Result<void> KeyTable::reserve_region_locked(Entry* entry, LocalKey lkey) {
  const std::uint32_t control =
      entry == nullptr ? 0 : entry->control.load(std::memory_order_relaxed);
  if ((control & (KeyEntry::kLocalLive | KeyEntry::kTagMask)) !=
      (KeyEntry::kLocalLive | (lkey.value & KeyEntry::kTagMask))) {
    return fail(Errc::kInvalidArgument, "lkey: no such region");
  }
  if (entry->bound_windows > 0) {
    return fail(Errc::kBusy,
                fmt::format("lkey: windows bound to the region: {}", entry->bound_windows));
  }
  if (entry->busy) return fail(Errc::kBusy, "lkey: an invalidation is under way");
  entry->busy = true;
  return {};
}

Result<void> KeyTable::deregister_region(LocalKey lkey) {
  const std::uint32_t slot = lkey.value >> 8;
  Entry* entry = slots_.at(slot);
  std::uint32_t control = 0;
  {
    const std::lock_guard guard(lock_);
    if (auto ok = reserve_region_locked(entry, lkey); !ok) return ok;
    control = entry->control.load(std::memory_order_relaxed);
    // ordered by drain()
    set_control(slot, *entry, lkey.value & KeyEntry::kTagMask, std::memory_order_relaxed);
    regions_.fetch_sub(1, std::memory_order_relaxed);
  }
  retire(slot, *entry, control);
  return {};
}

Result<void> KeyTable::invalidate(RemoteKey rkey, PdId pd, Qpn qpn) {
  const std::uint32_t slot = slot_of(rkey);
  Entry* entry = slots_.at(slot);
  const std::uint32_t tag = rkey.value & KeyEntry::kTagMask;
  std::uint32_t control = 0;
  {
    const std::lock_guard guard(lock_);
    if (entry != nullptr) control = entry->control.load(std::memory_order_relaxed);
    if ((control & (KeyEntry::kRemoteLive | KeyEntry::kTagMask)) != (KeyEntry::kRemoteLive | tag)) {
      return fail(Errc::kInvalidArgument, "rkey: no such key, or it protects nothing");
    }
    const bool window = (control & KeyEntry::kWindow) != 0;
    const bool type2 = window && entry->type == WindowType::kType2;
    if (!type2 && !has(entry->access, Access::kOneShot)) {
      return fail(Errc::kNotPermitted,
                  "rkey: only type-2 windows and one-shot keys can be invalidated");
    }
    if (entry->pd != pd) return fail(Errc::kNotPermitted, "rkey: another protection domain");
    if (type2 && entry->qpn != qpn) {
      return fail(Errc::kNotPermitted, "rkey: bound to another queue pair");
    }
    if (entry->busy) return fail(Errc::kBusy, "rkey: another change is under way");
    entry->busy = true;
    // ordered by drain()
    set_control(slot, *entry, control & ~(KeyEntry::kRemoteLive | KeyEntry::kFenced),
                std::memory_order_relaxed);
  }
  drain(slot, *entry, control);
  const std::lock_guard guard(lock_);
  if ((control & KeyEntry::kWindow) != 0) unbind_locked(*entry);
  entry->busy = false;
  return {};
}

std::string_view to_string(AccessError error) {
  switch (error) {
    case AccessError::kBadKey:
      return "no such key";
    case AccessError::kStale:
      return "stale key";
    case AccessError::kWrongDomain:
      return "wrong protection domain";
    case AccessError::kWrongQueuePair:
      return "wrong queue pair";
    case AccessError::kOutOfRange:
      return "outside the bound range";
    case AccessError::kNoRights:
      return "access not allowed by the key";
    case AccessError::kSpent:
      return "one-shot key already used";
    case AccessError::kNotBound:
      return "window not bound";
    case AccessError::kFault:
      return "memory is gone";
  }
  return "unknown access error";
}

}  // namespace weft::memory

// A region that is changed keeps its keys: they die, everyone who works under them is waited for,
// and they come alive again with the new meaning.
#include <mutex>

#include "memory/key_table.h"

namespace weft::memory {

Result<RegionKeys> KeyTable::reregister_region(LocalKey lkey, const RegionSpec& spec) {
  const auto iova = check_region(spec);
  if (!iova) return tl::unexpected(iova.error());
  const std::uint32_t slot = lkey.value >> 8;
  Entry* entry = slots_.at(slot);
  std::uint32_t control = 0;
  {
    const std::lock_guard guard(lock_);
    if (auto ok = reserve_region_locked(entry, lkey); !ok) return tl::unexpected(ok.error());
    control = entry->control.load(std::memory_order_relaxed);
    set_control(slot, *entry, control & ~(KeyEntry::kLocalLive | KeyEntry::kRemoteLive),
                std::memory_order_relaxed);  // ordered by drain()
  }
  drain(slot, *entry, control);
  const std::lock_guard guard(lock_);
  describe(*entry, spec, *iova);
  entry->busy = false;
  set_control(slot, *entry, (control & KeyEntry::kTagMask) | live_bits(spec.access),
              std::memory_order_release);
  return RegionKeys{lkey, remote_key(slot, control & KeyEntry::kTagMask), *iova};
}

}  // namespace weft::memory

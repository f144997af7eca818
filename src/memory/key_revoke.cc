// Revocation for owners that cannot be refused, such as destructors: what is in the way is taken
// away first. Each turn waits only for changes that another thread is in the middle of.
#include <mutex>
#include <thread>

#include "base/assert.h"
#include "memory/key_table.h"

namespace weft::memory {

void KeyTable::revoke_region(LocalKey lkey) {
  const std::uint32_t region = lkey.value >> 8;
  for (;;) {
    const auto gone = deregister_region(lkey);
    if (gone || gone.error().code != Errc::kBusy) return;
    // Windows that are bound to it, one after the other: rare, so a walk over the table will do.
    for (std::uint32_t slot = 0; Entry* entry = slots_.at(slot); ++slot) {
      std::uint32_t control = 0;
      {
        const std::lock_guard guard(lock_);
        control = entry->control.load(std::memory_order_relaxed);
        if ((control & KeyEntry::kWindow) == 0 || entry->region != region || entry->busy) continue;
        entry->busy = true;
        // drain() orders
        set_control(slot, *entry, control & ~(KeyEntry::kRemoteLive | KeyEntry::kFenced),
                    std::memory_order_relaxed);
      }
      drain(slot, *entry, control);
      const std::lock_guard guard(lock_);
      unbind_locked(*entry);
      entry->busy = false;
    }
    std::this_thread::yield();
  }
}

void KeyTable::revoke_window(RemoteKey rkey) {
  const Entry* entry = slots_.at(slot_of(rkey));
  WEFT_ASSERT(entry != nullptr);
  for (;;) {
    const std::uint32_t tag = entry->control.load(std::memory_order_relaxed) & KeyEntry::kTagMask;
    const auto gone = deallocate_window(RemoteKey((rkey.value & ~KeyEntry::kTagMask) | tag));
    if (gone) return;
    // A bind that was under way may have changed the tag meanwhile: look again.
    const std::uint32_t now = entry->control.load(std::memory_order_relaxed);
    if (gone.error().code != Errc::kBusy && (now & KeyEntry::kTagMask) == tag) return;
    std::this_thread::yield();
  }
}

}  // namespace weft::memory

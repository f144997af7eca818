// The windows of KeyTable. A bind happens in three steps: validate and reserve under the lock; ask
// the Vmm and wait for those who still use the old binding, without it; publish the new binding.
// A bind that is refused leaves the window as it was.
#include <fmt/format.h>

#include <mutex>

#include "memory/key_table.h"

namespace weft::memory {
namespace {

bool is_unbind(const BindSpec& spec) { return spec.length == 0; }

/// The range lies in a region that was checked when it was registered. Where addresses are the
/// process's own, a look at both ends will do: whoever unmaps the middle harms only its own peers,
/// whose access fails.
Fault check_again(Vmm& vmm, std::uint64_t address, std::uint64_t length, Intent intent) {
  if (!vmm.identity()) return vmm.check(address, length, intent);
  const Fault first = vmm.check(address, 1, intent);
  return first != Fault::kNone ? first : vmm.check(address + (length - 1), 1, intent);
}

tl::unexpected<Error> invalid(const char* what) { return fail(Errc::kInvalidArgument, what); }

}  // namespace

/// A bind between its steps: both entries are reserved, so neither goes away.
struct KeyTable::Binding {
  Entry* window;
  Entry* region;  ///< null: unbind
  std::uint32_t window_slot;
  std::uint32_t region_slot;
  std::uint32_t old_control;
  std::uint64_t target;
  bool implicit;
};

Result<KeyTable::Entry*> KeyTable::window_locked(RemoteKey rkey) {
  Entry* entry = slots_.at(slot_of(rkey));
  const std::uint32_t control =
      entry == nullptr ? 0 : entry->control.load(std::memory_order_relaxed);
  constexpr std::uint32_t kIs = KeyEntry::kTaken | KeyEntry::kWindow;
  if ((control & (kIs | KeyEntry::kTagMask)) != (kIs | (rkey.value & KeyEntry::kTagMask))) {
    return invalid("window: no such window under this key");
  }
  if (entry->busy) return fail(Errc::kBusy, "window: another change is under way");
  return entry;
}

void KeyTable::unbind_locked(Entry& window) {
  if (window.region == kNoSlot) return;
  --slots_.at(window.region)->bound_windows;
  window.region = kNoSlot;
}

Result<RemoteKey> KeyTable::allocate_window(PdId pd, WindowType type) {
  const std::lock_guard guard(lock_);
  std::uint32_t slot = 0;
  Entry* entry = acquire(&slot);
  if (entry == nullptr) {
    return fail(
        Errc::kOutOfMemory,
        fmt::format("all {} keys are in use, or no memory is left for one", slots_.capacity()));
  }
  const std::uint32_t tag = next_tag(entry->control.load(std::memory_order_relaxed));
  entry->pd = pd;
  entry->type = type;
  entry->region = kNoSlot;
  set_control(slot, *entry, tag | KeyEntry::kTaken | KeyEntry::kWindow, std::memory_order_release);
  windows_.fetch_add(1, std::memory_order_relaxed);
  return remote_key(slot, tag);
}

Result<void> KeyTable::deallocate_window(RemoteKey rkey) {
  Entry* entry = nullptr;
  std::uint32_t control = 0;
  {
    const std::lock_guard guard(lock_);
    const auto window = window_locked(rkey);
    if (!window) return tl::unexpected(window.error());
    entry = *window;
    entry->busy = true;
    control = entry->control.load(std::memory_order_relaxed);
    // ordered by drain()
    set_control(slot_of(rkey), *entry, rkey.value & KeyEntry::kTagMask, std::memory_order_relaxed);
    windows_.fetch_sub(1, std::memory_order_relaxed);
  }
  retire(slot_of(rkey), *entry, control);
  return {};
}

Result<KeyTable::Binding> KeyTable::begin_bind(const BindSpec& spec) {
  const std::lock_guard guard(lock_);
  const auto window = window_locked(spec.window);
  if (!window) return tl::unexpected(window.error());
  const std::uint32_t control = (*window)->control.load(std::memory_order_relaxed);
  Binding binding{*window, nullptr, slot_of(spec.window), kNoSlot, control, 0, false};
  if ((*window)->pd != spec.pd) return invalid("window: another protection domain");
  if ((*window)->type == WindowType::kType2) {
    if (is_unbind(spec)) return invalid("length: a type-2 window is unbound by invalidation");
    if ((control & KeyEntry::kRemoteLive) != 0) {
      return fail(Errc::kInvalidState, "window: a bound type-2 window must be invalidated first");
    }
  }
  if (!is_unbind(spec)) {
    binding.region_slot = spec.region.value >> 8;
    Entry* region = slots_.at(binding.region_slot);
    const std::uint32_t state =
        region == nullptr ? 0 : region->control.load(std::memory_order_relaxed);
    const std::uint32_t want = KeyEntry::kLocalLive | (spec.region.value & KeyEntry::kTagMask);
    if ((state & (KeyEntry::kLocalLive | KeyEntry::kTagMask)) != want)
      return invalid("region: no such region");
    if (region->pd != spec.pd) return invalid("region: another protection domain");
    if (!has(region->access, Access::kWindowBind)) {
      return invalid("region: not registered for window binding");
    }
    if (has_any(spec.access, kRemoteChange) && !has(region->access, Access::kLocalWrite)) {
      return invalid("access: remote write and atomic need the region's local write");
    }
    const std::uint64_t offset = spec.address - region->base;
    if (offset > region->length || spec.length > region->length - offset) {
      return invalid("address, length: the range is not inside the region");
    }
    binding.region = region;
    binding.target = region->target + offset;
    binding.implicit = region->implicit;
    ++region->bound_windows;
  }
  (*window)->busy = true;
  return binding;
}

void KeyTable::abandon_bind(const Binding& binding) {
  const std::lock_guard guard(lock_);
  --binding.region->bound_windows;
  binding.window->busy = false;
}

Result<RemoteKey> KeyTable::finish_bind(const BindSpec& spec, const Binding& binding) {
  Entry& window = *binding.window;
  const bool type2 = window.type == WindowType::kType2;
  const std::uint32_t tag = type2 ? spec.new_tag : next_tag(binding.old_control);
  const std::uint32_t slot = binding.window_slot;
  set_control(slot, window, tag | KeyEntry::kTaken | KeyEntry::kWindow,
              std::memory_order_relaxed);  // drain() orders
  // The old key dies first: nobody is inside the old range when the new one is written. A window
  // that protected nothing was drained when it stopped to.
  if ((binding.old_control & KeyEntry::kRemoteLive) != 0) drain(slot, window, binding.old_control);
  const std::lock_guard guard(lock_);
  unbind_locked(window);
  window.busy = false;
  if (binding.region != nullptr) {
    window.region = binding.region_slot;
    window.base = has(spec.access, Access::kZeroBased) ? 0 : spec.address;
    window.length = spec.length;
    window.target = binding.target;
    window.vmm = binding.region->vmm;
    window.access = spec.access;
    window.qpn = type2 ? spec.qpn : KeyEntry::kAnyQueuePair;
    window.claim.store(kUnclaimed, std::memory_order_relaxed);
    set_control(
        slot, window,
        tag | KeyEntry::kTaken | KeyEntry::kWindow | KeyEntry::kRemoteLive | KeyEntry::kFenced,
        std::memory_order_release);
  }
  return remote_key(binding.window_slot, tag);
}

Result<RemoteKey> KeyTable::bind(const BindSpec& spec) {
  const auto binding = begin_bind(spec);
  if (!binding) return tl::unexpected(binding.error());
  if (binding->region != nullptr) {
    const Intent intent = has_any(spec.access, kRemoteChange) ? Intent::kWrite : Intent::kRead;
    Vmm& vmm = *binding->region->vmm;
    const Fault fault = binding->implicit ? vmm.check(binding->target, spec.length, intent)
                                          : check_again(vmm, binding->target, spec.length, intent);
    if (fault != Fault::kNone) {
      abandon_bind(*binding);
      return fail(Errc::kInvalidArgument, fmt::format("address: {} bytes at {:#x}: {}", spec.length,
                                                      spec.address, to_string(fault)));
    }
  }
  return finish_bind(spec, *binding);
}

}  // namespace weft::memory

#include "host/fd_flags.h"

#include <atomic>
#include <mutex>
#include <vector>

#include "base/lock.h"
#include "host/fork.h"

namespace weft::host {
namespace {

struct FlagsListeners {
  base::Lock lock;
  std::vector<FlagsListener*> all;
};

/// Never destroyed: programs change flags until their very end. A child after fork has others:
/// those of its parent may be in the middle of anything.
std::atomic<FlagsListeners*> current_listeners{nullptr};

FlagsListeners& flags_listeners() {
  static const bool made = [] {
    current_listeners.store(new FlagsListeners, std::memory_order_release);
    call_in_child([] { current_listeners.store(new FlagsListeners, std::memory_order_release); });
    return true;
  }();
  static_cast<void>(made);
  return *current_listeners.load(std::memory_order_acquire);
}

}  // namespace

void add_flags_listener(FlagsListener& listener) {
  FlagsListeners& known = flags_listeners();
  const std::lock_guard guard(known.lock);
  known.all.push_back(&listener);
}

void remove_flags_listener(FlagsListener& listener) {
  FlagsListeners& known = flags_listeners();
  const std::lock_guard guard(known.lock);
  std::erase(known.all, &listener);
}

void tell_descriptor_blocks() {
  FlagsListeners* const known = current_listeners.load(std::memory_order_acquire);
  if (known == nullptr) return;
  const std::lock_guard guard(known->lock);
  for (FlagsListener* listener : known->all) listener->on_descriptor_blocks();
}

}  // namespace weft::host

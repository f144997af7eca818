#include "host/arena_registry.h"

#include <atomic>
#include <iterator>
#include <map>
#include <mutex>

#include "base/assert.h"
#include "base/lock.h"
#include "host/arena_object.h"
#include "host/fork.h"

namespace weft::host {
namespace {

struct Entry {
  std::size_t size;
  std::uint32_t number;
  std::weak_ptr<ArenaObject> arena;
};

struct Registry {
  base::Lock lock;
  std::uint32_t last_number = 0;
  std::atomic<std::uint64_t> gone{0};
  std::map<std::uintptr_t, Entry> by_address;
  std::map<std::uint32_t, std::uintptr_t> by_number;

  static Registry& instance() {
    static Registry& registry = *new Registry;
    return registry;
  }

  // Every use is inside a ForkHold, so that a child finds the lock free and the maps whole.
  Registry() {
    call_in_child([] {
      instance().by_address.clear();
      instance().by_number.clear();
    });
  }
};

std::uintptr_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

ArenaPlace find_in_arena(const void* address, std::size_t length) {
  Registry& registry = Registry::instance();
  const ForkHold hold;
  const std::lock_guard lock(registry.lock);
  const auto after = registry.by_address.upper_bound(number_of(address));
  if (after == registry.by_address.begin()) return {};
  const auto& [start, entry] = *std::prev(after);
  const std::size_t offset = number_of(address) - start;
  if (offset >= entry.size || length > entry.size - offset) return {};
  return {entry.number, offset};
}

std::shared_ptr<ArenaObject> hold_arena(std::uint32_t arena) {
  Registry& registry = Registry::instance();
  const ForkHold hold;
  const std::lock_guard lock(registry.lock);
  const auto found = registry.by_number.find(arena);
  if (found == registry.by_number.end()) return nullptr;
  return registry.by_address.at(found->second).arena.lock();
}

int arena_fd(std::uint32_t arena, std::size_t* bytes, std::shared_ptr<ArenaObject>* keep) {
  auto object = hold_arena(arena);
  if (!object) return -1;
  *bytes = object->memory().size();
  *keep = std::move(object);
  return (*keep)->memory().fd();
}

std::uint32_t new_arena_number() {
  Registry& registry = Registry::instance();
  const ForkHold hold;
  const std::lock_guard lock(registry.lock);
  const std::uint32_t number = ++registry.last_number;
  WEFT_ASSERT(number != 0 && "four thousand million arenas were made");
  return number;
}

void list_arena(const std::shared_ptr<ArenaObject>& arena) {
  Registry& registry = Registry::instance();
  const std::uintptr_t start = number_of(arena->memory().data());
  const ForkHold hold;
  const std::lock_guard lock(registry.lock);
  registry.by_address.emplace(start, Entry{arena->memory().size(), arena->number(), arena});
  registry.by_number.emplace(arena->number(), start);
}

void unlist_arena(const ArenaObject& arena) {
  Registry& registry = Registry::instance();
  const ForkHold hold;
  const std::lock_guard lock(registry.lock);
  // Not there in a child, for an arena of its parent.
  const auto found = registry.by_number.find(arena.number());
  if (found == registry.by_number.end()) return;
  registry.by_address.erase(found->second);
  registry.by_number.erase(found);
  // release pairs with the acquire in arenas_gone(): whoever sees the count finds it gone.
  registry.gone.fetch_add(1, std::memory_order_release);
}

std::uint64_t arenas_gone() { return Registry::instance().gone.load(std::memory_order_acquire); }

}  // namespace weft::host

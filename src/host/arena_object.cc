#include "host/arena_object.h"

#include <unistd.h>

#include <bit>
#include <iterator>
#include <mutex>
#include <new>

#include "base/assert.h"
#include "host/arena_registry.h"
#include "host/fork.h"

namespace weft::host {
namespace {

// A cache line: blocks of different owners never share one.
constexpr std::size_t kGranuleBytes = 64;

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) & ~(unit - 1);
}

}  // namespace

ArenaObject::ArenaObject(SharedMemory memory, std::uint32_t number)
    : memory_(std::move(memory)), number_(number), generation_(fork_generation()) {
  release(stretches_.emplace(0, make_block(memory_.size())).first);
}

Result<std::shared_ptr<ArenaObject>> ArenaObject::create(std::size_t bytes) {
  auto memory = SharedMemory::create("weft-arena", bytes, bytes, SharedMemory::Peers::kWrite);
  if (!memory) return tl::unexpected(memory.error());
  try {
    auto object = std::make_shared<ArenaObject>(std::move(*memory), new_arena_number());
    list_arena(object);
    return object;
  } catch (const std::bad_alloc&) {
    return fail(Errc::kOutOfMemory, "arena: no memory for the books of it; free some");
  }
}

// No key leads here any more, so no peer works on it; but those that have it mapped would keep its
// pages until they look at their sockets again.
ArenaObject::~ArenaObject() {
  memory_.discard();
  unlist_arena(*this);
}

bool ArenaObject::inherited() const { return generation_ != fork_generation(); }

void* ArenaObject::take(std::size_t bytes, std::size_t alignment) {
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (inherited() || bytes > memory_.size()) return nullptr;
  if (!std::has_single_bit(alignment) || alignment > page) return nullptr;
  const std::size_t size = round_up(bytes == 0 ? 1 : bytes, kGranuleBytes);

  const std::lock_guard lock(lock_);
  // The smallest stretch that does; for alignments up to a granule that is the first one.
  for (auto found = sizes_.lower_bound({size, 0}); found != sizes_.end(); ++found) {
    const auto [length, start] = *found;
    const std::size_t offset = round_up(start, alignment);
    if (offset - start > length - size) continue;
    auto block = stretches_.find(start);
    park(block);
    try {
      if (offset > start) {
        const auto rest = cut(block, offset);
        release(block);
        block = rest;
      }
      if (block->second.size > size) release(cut(block, offset + size));
    } catch (const std::bad_alloc&) {
      release(block);
      return nullptr;
    }
    return memory_.data() + offset;
  }
  return nullptr;
}

void ArenaObject::give_back(void* block) {
  if (block == nullptr || inherited()) return;
  // As numbers: the pointer may be any.
  const std::size_t offset =
      reinterpret_cast<std::uintptr_t>(block) - reinterpret_cast<std::uintptr_t>(memory_.data());
  const std::lock_guard lock(lock_);
  const auto found = stretches_.find(offset);
  WEFT_ASSERT(found != stretches_.end() && !found->second.is_free() &&
              "a block of this arena, given back once");
  release(found);
}

std::size_t ArenaObject::free_bytes() const {
  if (inherited()) return 0;
  const std::lock_guard lock(lock_);
  return free_bytes_;
}

ArenaObject::Stretch ArenaObject::make_block(std::size_t size) {
  Sizes fresh{{size, 0}};
  return {size, fresh.extract(fresh.begin())};
}

/// A free stretch becomes a block.
void ArenaObject::park(Stretches::iterator stretch) {
  stretch->second.parked = sizes_.extract({stretch->second.size, stretch->first});
  free_bytes_ -= stretch->second.size;
}

/// A block becomes free, together with its free neighbours.
void ArenaObject::release(Stretches::iterator stretch) {
  const auto swallow_next = [this](Stretches::iterator first) {
    const auto next = std::next(first);
    first->second.size += next->second.size;
    stretches_.erase(next);
  };
  free_bytes_ += stretch->second.size;
  const auto next = std::next(stretch);
  if (next != stretches_.end() && next->second.is_free()) {
    sizes_.erase({next->second.size, next->first});
    swallow_next(stretch);
  }
  if (stretch != stretches_.begin() && std::prev(stretch)->second.is_free()) {
    --stretch;
    stretch->second.parked = sizes_.extract({stretch->second.size, stretch->first});
    swallow_next(stretch);
  }
  auto entry = std::move(stretch->second.parked);
  entry.value() = {stretch->second.size, stretch->first};
  sizes_.insert(std::move(entry));
}

/// Two blocks of one; the second begins at `offset`. Nothing has changed when this throws.
ArenaObject::Stretches::iterator ArenaObject::cut(Stretches::iterator block, std::size_t offset) {
  const std::size_t left = offset - block->first;
  const auto second =
      stretches_.emplace_hint(std::next(block), offset, make_block(block->second.size - left));
  block->second.size = left;
  return second;
}

void* ArenaObject::do_allocate(std::size_t bytes, std::size_t alignment) {
  void* const block = take(bytes, alignment);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void ArenaObject::do_deallocate(void* block, std::size_t /*bytes*/, std::size_t /*alignment*/) {
  give_back(block);
}

}  // namespace weft::host

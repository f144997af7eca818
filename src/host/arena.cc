#include "weft/arena.h"

#include <utility>

#include "host/arena_object.h"

namespace weft {

Arena::Arena(std::shared_ptr<host::ArenaObject> object) : object_(std::move(object)) {}

Result<Arena> Arena::create(std::size_t bytes) {
  auto object = host::ArenaObject::create(bytes);
  if (!object) return tl::unexpected(object.error());
  return Arena(std::move(*object));
}

void* Arena::allocate(std::size_t bytes, std::size_t alignment) {
  return object_->take(bytes, alignment);
}

void Arena::deallocate(void* block) { object_->give_back(block); }

std::pmr::memory_resource* Arena::resource() { return object_.get(); }

std::span<std::byte> Arena::memory() const { return object_->memory().bytes(); }

std::size_t Arena::free_bytes() const { return object_->free_bytes(); }

}  // namespace weft

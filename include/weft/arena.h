// Memory that peers on the same host can reach with plain loads and stores: what is allocated from
// an arena and registered is copied to and from directly, at memory speed, while other memory takes
// a system call for each access. To a program it is memory like any other; it is also a
// std::pmr::memory_resource. Any thread. An arena lives on until its handles and the regions that
// were registered in it are gone. A child after fork cannot use its parent's arenas; it makes its
// own.
#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <span>

#include "weft/result.h"

namespace weft {

namespace host {
class ArenaObject;
}

class Arena {
 public:
  /// The pages are reserved at once: kOutOfMemory instead of a signal later.
  static Result<Arena> create(std::size_t bytes);

  /// nullptr when no stretch of that size is free. Alignment: a power of two up to a page. The
  /// bytes are what the last owner left there.
  void* allocate(std::size_t bytes, std::size_t alignment = 64);
  /// What allocate() gave; nullptr is allowed.
  void deallocate(void* block);
  /// Lives as long as the arena. Throws std::bad_alloc when full, as the standard asks.
  std::pmr::memory_resource* resource();

  std::span<std::byte> memory() const;
  std::size_t free_bytes() const;

 private:
  explicit Arena(std::shared_ptr<host::ArenaObject> object);
  std::shared_ptr<host::ArenaObject> object_;
};

}  // namespace weft

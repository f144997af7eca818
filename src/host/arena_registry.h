// All arenas of this process, so that registered memory can be recognised as lying in one. Any
// thread; never destroyed. In a child after fork the parent's arenas are not in it any more: their
// memory is the child's own there, like any other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace weft::host {

class ArenaObject;

/// Where a stretch of memory lies, as a peer that has mapped the arena would say it.
struct ArenaPlace {
  std::uint32_t arena = 0;  ///< number of the arena, never given twice by one process; 0: none
  std::uint64_t offset = 0;
};

/// The arena that holds all of the range; `arena` is 0 if there is none.
ArenaPlace find_in_arena(const void* address, std::size_t length);
/// The memfd of an arena, to be sent to a peer, and its size; -1 when it is gone. The caller keeps
/// the object for as long as it uses the fd.
int arena_fd(std::uint32_t arena, std::size_t* bytes, std::shared_ptr<ArenaObject>* keep);
/// Keeps the arena's memory for as long as a region lies in it; empty for 0 and when it is gone.
std::shared_ptr<ArenaObject> hold_arena(std::uint32_t arena);

/// How many arenas have been destroyed: whoever told peers of some looks again when it changes.
std::uint64_t arenas_gone();

/// For ArenaObject: its number, its entry while it lives.
std::uint32_t new_arena_number();
void list_arena(const std::shared_ptr<ArenaObject>& arena);
void unlist_arena(const ArenaObject& arena);

}  // namespace weft::host

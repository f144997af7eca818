// Memory for the rings of all channels of a context: large chunks, cut into blocks. A device that
// pins memory has, under a key, the pages that were there when they were registered; so pages under
// a live key are given back to the system only where the memory is an arena of the device itself,
// which peers on the same host also write to with plain stores. There are two kinds of slab:
//
//   of keys    each chunk is registered once, for local use. A chunk without blocks goes, key
//   first;
//              free pages go before only if it is an arena. Where there are no arenas, a large
//              block has a chunk of its own. Nothing goes before trim(): who shrinks may grow
//              again.
//   of pages   nothing is registered: who has a block registers it, and revokes that before it
//   frees
//              the block. Blocks are whole pages, and go back to the system when they are freed.
//
// Belongs to a context, under its lock.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "weft/types.h"

namespace weft::channel {

class Chunk;

struct Block {
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
  Chunk* chunk = nullptr;
};

/// Where a block may begin.
enum class Place : std::uint8_t {
  kLine,     ///< with any cache line
  kMidPage,  ///< in the middle of a page
};

/// What a block of so many bytes takes: it ends with a cache line.
constexpr std::uint64_t block_bytes(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

class Slab {
 public:
  /// `pd`: of the registrations; null: of pages. `arenas`: the device has them.
  Slab(ibv_pd* pd, bool arenas);
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  /// The bytes are what the last owner left there. memory is null when there is none; errno says
  /// why.
  Block allocate(std::size_t bytes, Place place = Place::kLine);
  void free(Block& block);
  /// To be called now and then: gives back what became free before the last call.
  void trim();
  /// Its memory is of a slab of keys.
  static bool has_key(const Block& block);
  static LocalKey local_key(const Block& block);
  bool has_arenas() const { return arenas_; }

 private:
  bool is_of_pages() const { return pd_ == nullptr; }
  Chunk* add_chunk(std::size_t bytes, bool sole);
  Block allocate_in_chunks(std::size_t bytes, Place place);
  Block allocate_alone(std::size_t bytes, Place place);
  void free_kept();

  ibv_pd* const pd_;
  const bool arenas_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::uint64_t chunk_bytes_ = 0;
  Block kept_[4];  ///< large ones that were freed lately: the next one is often of the same size
  std::size_t next_kept_ = 0;
};

}  // namespace weft::channel

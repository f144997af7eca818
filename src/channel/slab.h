// Memory for the rings of all channels of a context: large chunks, each registered once for local
// use, cut into blocks. Where the device offers arenas, a chunk is one, so that peers on the same
// host write to it with plain stores. What is free in whole pages is given back to the system by
// trim(), not at once: who shrinks may grow again; a chunk without blocks goes. Belongs to a
// context, under its lock.
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

class Slab {
 public:
  explicit Slab(ibv_pd* pd);
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  /// The bytes are what the last owner left there. memory is null when there is none; errno says
  /// why.
  Block allocate(std::size_t bytes, Place place = Place::kLine);
  void free(Block& block);
  /// To be called now and then: gives back what became free before the last call.
  void trim();
  static LocalKey local_key(const Block& block);
  std::uint64_t chunk_bytes() const { return chunk_bytes_; }

 private:
  Chunk* add_chunk(std::size_t least);
  Block allocate_in_chunks(std::size_t bytes, Place place);
  void free_kept();

  ibv_pd* const pd_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::uint64_t chunk_bytes_ = 0;
  Block kept_[4];  ///< large ones that were freed lately: the next one is often of the same size
  std::size_t next_kept_ = 0;
};

}  // namespace weft::channel

#include "channel/slab.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "weft/extensions.h"

namespace weft::channel {
namespace {

constexpr std::size_t kLine = 64, kSlabPage = 4096;
constexpr std::size_t kChunkLeast = std::size_t{1} << 20, kChunkMost = std::size_t{4} << 20;
/// From this size on a block has a chunk of its own, if that is the only way to be rid of it.
constexpr std::size_t kAloneLeast = std::size_t{32} << 10;

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

/// The first place of the kind, not before `offset`.
constexpr std::size_t first_from(std::size_t offset, Place place) {
  if (place == Place::kLine) return round_up(offset, kLine);
  return round_up(offset + kSlabPage / 2, kSlabPage) - kSlabPage / 2;
}

}  // namespace

/// One stretch of memory with one registration or none, and what of it is free.
class Chunk {
 public:
  /// `sole`: for one block alone.
  explicit Chunk(bool sole) : sole_(sole) {}
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;
  ~Chunk() {
    if (region_ != nullptr) ibv_dereg_mr(region_);
    if (arena_ != nullptr) {
      weft_get_extensions()->arena_destroy(arena_);
    } else if (memory_ != nullptr) {
      munmap(memory_, bytes_);
    }
  }

  bool create(ibv_pd* pd, bool arena, std::size_t bytes) {
    bytes_ = bytes;
    void* memory = nullptr;
    if (arena) arena_ = weft_get_extensions()->arena_create(bytes, &memory);
    if (arena_ == nullptr) {
      memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) return false;
    }
    memory_ = static_cast<std::byte*>(memory);
    free_[0] = bytes_;
    if (pd == nullptr) return true;
    region_ = ibv_reg_mr(pd, memory_, bytes_, IBV_ACCESS_LOCAL_WRITE);
    return region_ != nullptr;
  }

  std::byte* allocate(std::size_t bytes, Place place) {
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      const auto [offset, length] = *at;
      const std::size_t first = first_from(offset, place), skipped = first - offset;
      if (length < skipped || length - skipped < bytes) continue;
      if (skipped > 0) {
        at->second = skipped;
      } else {
        free_.erase(at);
      }
      if (length > skipped + bytes) free_[first + bytes] = length - skipped - bytes;
      used_ += bytes;
      return memory_ + first;
    }
    return nullptr;
  }

  void free(std::byte* block, std::size_t bytes) {
    auto offset = static_cast<std::size_t>(block - memory_);
    used_ -= bytes;
    auto after = free_.lower_bound(offset);
    if (after != free_.end() && after->first == offset + bytes) {
      bytes += after->second;
      after = free_.erase(after);
    }
    if (after != free_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == offset) {
        offset = before->first;
        bytes += before->second;
        free_.erase(before);
      }
    }
    free_[offset] = bytes;
    idle_ = 0;
    trimmed_ = false;
  }

  /// The whole pages of it go to the system; they are nobody's.
  void give_back_pages(const std::byte* begin, std::size_t bytes) const {
    give_back_pages(static_cast<std::size_t>(begin - memory_), bytes);
  }

  /// True: nothing of it has been in use for a while.
  bool trim() {
    if (++idle_ < 2) return false;
    if (!trimmed_ && may_change_pages()) {
      for (const auto& [offset, bytes] : free_) give_back_pages(offset, bytes);
    }
    trimmed_ = true;
    return is_unused();
  }

  std::size_t bytes() const { return bytes_; }
  bool is_sole() const { return sole_; }
  bool is_unused() const { return used_ == 0; }
  bool has_key() const { return region_ != nullptr; }
  std::uint32_t local_key() const { return region_->lkey; }

 private:
  /// Under a key only an arena may: there the device looks at the pages that are there now.
  bool may_change_pages() const { return region_ == nullptr || arena_ != nullptr; }
  // An arena is shared memory: there only MADV_REMOVE frees the pages.
  void give_back_pages(std::size_t offset, std::size_t bytes) const {
    const std::size_t first = round_up(offset, kSlabPage),
                      last = (offset + bytes) / kSlabPage * kSlabPage;
    if (first < last) {
      madvise(memory_ + first, last - first, arena_ != nullptr ? MADV_REMOVE : MADV_DONTNEED);
    }
  }

  const bool sole_;

  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0, used_ = 0;
  void* arena_ = nullptr;
  ibv_mr* region_ = nullptr;
  std::map<std::size_t, std::size_t> free_;  // offset, length
  int idle_ = 0;                             // calls of trim() since something became free
  bool trimmed_ = true;
};

/// Smaller blocks are made for good.
constexpr std::size_t kKeptLeast = std::size_t{8} << 10;

Slab::Slab(ibv_pd* pd, bool arenas) : pd_(pd), arenas_(arenas) {}
Slab::~Slab() = default;

Chunk* Slab::add_chunk(std::size_t bytes, bool sole) {
  auto chunk = std::make_unique<Chunk>(sole);
  if (!chunk->create(pd_, arenas_, bytes)) return nullptr;
  chunk_bytes_ += bytes;
  chunks_.push_back(std::move(chunk));
  return chunks_.back().get();
}

Block Slab::allocate(std::size_t bytes, Place place) {
  bytes = is_of_pages() ? round_up(bytes, kSlabPage) : block_bytes(bytes);
  for (Block& kept : kept_) {
    if (kept.bytes == bytes) return std::exchange(kept, {});
  }
  if (!is_of_pages() && !arenas_ && bytes >= kAloneLeast) return allocate_alone(bytes, place);
  Block block = allocate_in_chunks(bytes, place);
  if (block.memory != nullptr) return block;
  free_kept();
  block = allocate_in_chunks(bytes, place);
  if (block.memory != nullptr) return block;
  // A quarter of what there is, within bounds: few chunks where there are many channels.
  const std::size_t usual = std::clamp<std::size_t>(chunk_bytes_ / 4, kChunkLeast, kChunkMost);
  block.chunk = add_chunk(round_up(std::max(usual, bytes + kSlabPage), kSlabPage), false);
  if (block.chunk != nullptr) block.memory = block.chunk->allocate(bytes, place);
  return block;
}

Block Slab::allocate_in_chunks(std::size_t bytes, Place place) {
  for (const auto& chunk : chunks_) {
    if (chunk->is_sole()) continue;
    std::byte* memory = chunk->allocate(bytes, place);
    if (memory != nullptr) return {memory, bytes, chunk.get()};
  }
  return {nullptr, bytes, nullptr};
}

// In a chunk of this size that is left over, or a new one.
Block Slab::allocate_alone(std::size_t bytes, Place place) {
  const std::size_t needed =
      round_up(bytes + (place == Place::kMidPage ? kSlabPage : 0), kSlabPage);
  Chunk* found = nullptr;
  for (const auto& chunk : chunks_) {
    if (chunk->is_sole() && chunk->is_unused() && chunk->bytes() == needed) found = chunk.get();
  }
  if (found == nullptr) found = add_chunk(needed, true);
  if (found == nullptr) return {nullptr, bytes, nullptr};
  return {found->allocate(bytes, place), bytes, found};
}

void Slab::free(Block& block) {
  if (block.memory == nullptr) return;
  if (is_of_pages()) {
    block.chunk->free(block.memory, block.bytes);
    block.chunk->give_back_pages(block.memory, block.bytes);
    block = {};
    return;
  }
  if (block.bytes >= kKeptLeast) std::swap(block, kept_[next_kept_++ % std::size(kept_)]);
  if (block.memory != nullptr) block.chunk->free(block.memory, block.bytes);
  block = {};
}

void Slab::free_kept() {
  for (Block& kept : kept_) {
    if (kept.memory != nullptr) kept.chunk->free(kept.memory, kept.bytes);
    kept = {};
  }
}

void Slab::trim() {
  free_kept();
  std::size_t shared = 0;  // the last of these stays
  for (const auto& chunk : chunks_) shared += chunk->is_sole() ? 0 : 1;
  for (std::size_t i = 0; i < chunks_.size();) {
    Chunk& chunk = *chunks_[i];
    if (!chunk.trim() || (!chunk.is_sole() && shared == 1)) {
      ++i;
      continue;
    }
    if (!chunk.is_sole()) --shared;
    chunk_bytes_ -= chunk.bytes();
    chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

bool Slab::has_key(const Block& block) { return block.chunk->has_key(); }
LocalKey Slab::local_key(const Block& block) { return LocalKey(block.chunk->local_key()); }

}  // namespace weft::channel

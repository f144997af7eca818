// Numbered slots for objects that others reach by number without a lock. Storage is type-stable: it
// grows by chunks that live as long as the table, so a pointer from at() stays valid, whatever
// happens to the slot; T itself says whether it is live. Slots are default-constructed once
// and handed out again as their last user left them. Freed slots rest in a queue, first in, first
// out, so that a number which somebody still remembers comes back as late as possible.
// at() from any thread; acquire() and release() take the table's own lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>

#include "base/assert.h"
#include "base/lock.h"

namespace weft::base {

template <class T>
class SlotTable {
 public:
  static constexpr std::uint32_t kMaxSlots = 1U << 24;
  /// New slots are preferred until this many wait for reuse.
  static constexpr std::uint32_t kDefaultRest = 64;

  explicit SlotTable(std::uint32_t capacity, std::uint32_t rest = kDefaultRest)
      : capacity_(capacity),
        rest_(rest),
        chunks_(std::make_unique<std::atomic<Chunk*>[]>((capacity + kPerChunk - 1) / kPerChunk)) {
    WEFT_ASSERT(capacity > 0 && capacity <= kMaxSlots);
  }
  ~SlotTable() {
    for (std::uint32_t i = 0; i < fresh_; i += kPerChunk) {
      delete chunks_[i / kPerChunk].load(std::memory_order_relaxed);
    }
  }
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;

  /// Null when no slot with this number was ever handed out, give or take a chunk.
  T* at(std::uint32_t index) const {
    Chunk* chunk = chunk_of(index);
    return chunk == nullptr ? nullptr : &chunk->values[index % kPerChunk];
  }

  /// Null when every slot is taken, or there is no memory for more.
  T* acquire(std::uint32_t* index) {
    const std::lock_guard guard(lock_);
    if (resting_ <= rest_ && fresh_ < capacity_) {
      *index = fresh_;
      if (fresh_ % kPerChunk == 0) {
        Chunk* chunk = new (std::nothrow) Chunk;
        if (chunk == nullptr) return nullptr;
        // release pairs with the acquire in chunk_of(): the chunk's contents come first.
        chunks_[fresh_ / kPerChunk].store(chunk, std::memory_order_release);
      }
      ++fresh_;
    } else if (resting_ > 0) {
      *index = oldest_;
      oldest_ = next_of(oldest_);
      --resting_;
    } else {
      return nullptr;
    }
    ++in_use_;
    next_of(*index) = kTaken;
    return at(*index);
  }

  void release(std::uint32_t index) {
    const std::lock_guard guard(lock_);
    WEFT_ASSERT(chunk_of(index) != nullptr && next_of(index) == kTaken);
    next_of(index) = 0;
    if (resting_ == 0) {
      oldest_ = index;
    } else {
      next_of(newest_) = index;
    }
    newest_ = index;
    ++resting_;
    --in_use_;
  }

  std::uint32_t in_use() const {
    const std::lock_guard guard(lock_);
    return in_use_;
  }
  std::uint32_t capacity() const { return capacity_; }

 private:
  static constexpr std::uint32_t kTaken = ~0u;
  // About 16 KiB a chunk, so that a small table stays small.
  static constexpr std::uint32_t kPerChunk =
      std::bit_floor(std::max<std::uint32_t>(8, 16384 / sizeof(T)));

  /// What the table itself needs lies apart: T may be aligned to lines, and would take one more.
  struct Chunk {
    T values[kPerChunk]{};
    std::uint32_t next[kPerChunk]{};  ///< kTaken: it is not waiting for reuse
  };

  Chunk* chunk_of(std::uint32_t index) const {
    if (index >= capacity_) return nullptr;
    return chunks_[index / kPerChunk].load(std::memory_order_acquire);
  }
  std::uint32_t& next_of(std::uint32_t index) const {
    return chunk_of(index)->next[index % kPerChunk];
  }

  const std::uint32_t capacity_;
  const std::uint32_t rest_;
  std::unique_ptr<std::atomic<Chunk*>[]> chunks_;
  mutable Lock lock_;
  std::uint32_t fresh_ = 0;  ///< slots below were handed out at least once
  std::uint32_t oldest_ = 0, newest_ = 0, resting_ = 0;
  std::uint32_t in_use_ = 0;
};

}  // namespace weft::base

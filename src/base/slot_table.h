// Numbered slots for objects that others reach by number without a lock. Storage is type-stable: it
// grows by chunks that live as long as the table, so a pointer from at() stays valid, whatever
// happens to the slot; T itself says whether it is live. Slots are default-constructed once
// and handed out again as their last user left them. Freed slots rest in a queue, first in, first
// out, so that a number which somebody still remembers comes back as late as possible. A slot that
// its user calls worn, because it has no name left that nobody remembers, waits in a queue of its
// own until many others are worn too, or until there is no other.
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
  /// So many worn slots are left alone.
  static constexpr std::uint32_t kWornMost = 1U << 16;

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
    if (resting_.count <= rest_ && fresh_ < capacity_) {
      *index = fresh_;
      if (fresh_ % kPerChunk == 0) {
        Chunk* chunk = new (std::nothrow) Chunk;
        if (chunk == nullptr) return nullptr;
        // release pairs with the acquire in chunk_of(): the chunk's contents come first.
        chunks_[fresh_ / kPerChunk].store(chunk, std::memory_order_release);
      }
      ++fresh_;
    } else if (resting_.count > 0) {
      *index = take(resting_);
    } else if (worn_.count > 0) {
      *index = take(worn_);
    } else {
      return nullptr;
    }
    ++in_use_;
    next_of(*index) = kTaken;
    return at(*index);
  }

  enum class Wear : std::uint8_t { kNone, kWorn };
  void release(std::uint32_t index, Wear wear = Wear::kNone) {
    const std::lock_guard guard(lock_);
    WEFT_ASSERT(chunk_of(index) != nullptr && next_of(index) == kTaken);
    put(wear == Wear::kWorn ? worn_ : resting_, index);
    if (worn_.count > kWornMost) put(resting_, take(worn_));
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

  /// First in, first out, linked through `next`.
  struct Queue {
    std::uint32_t oldest = 0, newest = 0, count = 0;
  };
  void put(Queue& queue, std::uint32_t index) {
    next_of(index) = 0;
    if (queue.count == 0) {
      queue.oldest = index;
    } else {
      next_of(queue.newest) = index;
    }
    queue.newest = index;
    ++queue.count;
  }
  std::uint32_t take(Queue& queue) {
    const std::uint32_t index = queue.oldest;
    queue.oldest = next_of(index);
    --queue.count;
    return index;
  }

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
  Queue resting_, worn_;
  std::uint32_t in_use_ = 0;
};

}  // namespace weft::base

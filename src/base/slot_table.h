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
        chunks_(std::make_unique<std::atomic<Node*>[]>((capacity + kPerChunk - 1) / kPerChunk)) {
    WEFT_ASSERT(capacity > 0 && capacity <= kMaxSlots);
  }
  ~SlotTable() {
    for (std::uint32_t i = 0; i < fresh_; i += kPerChunk) {
      delete[] chunks_[i / kPerChunk].load(std::memory_order_relaxed);
    }
  }
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;

  /// Null when no slot with this number was ever handed out, give or take a chunk.
  T* at(std::uint32_t index) const {
    Node* node = node_at(index);
    return node == nullptr ? nullptr : &node->value;
  }

  /// Null when every slot is taken, or there is no memory for more.
  T* acquire(std::uint32_t* index) {
    const std::lock_guard guard(lock_);
    if (resting_ <= rest_ && fresh_ < capacity_) {
      *index = fresh_;
      if (fresh_ % kPerChunk == 0) {
        Node* chunk = new (std::nothrow) Node[kPerChunk];
        if (chunk == nullptr) return nullptr;
        // release pairs with the acquire in node_at(): the chunk's contents come first.
        chunks_[fresh_ / kPerChunk].store(chunk, std::memory_order_release);
      }
      ++fresh_;
    } else if (resting_ > 0) {
      *index = oldest_;
      oldest_ = node_at(oldest_)->next;
      --resting_;
    } else {
      return nullptr;
    }
    ++in_use_;
    Node* node = node_at(*index);
    node->taken = true;
    return &node->value;
  }

  void release(std::uint32_t index) {
    const std::lock_guard guard(lock_);
    Node* node = node_at(index);
    WEFT_ASSERT(node != nullptr && node->taken);
    node->taken = false;
    if (resting_ == 0) {
      oldest_ = index;
    } else {
      node_at(newest_)->next = index;
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
  struct Node {
    T value{};
    std::uint32_t next = 0;
    bool taken = false;
  };
  // About 16 KiB a chunk, so that a small table stays small.
  static constexpr std::uint32_t kPerChunk =
      std::bit_floor(std::max<std::uint32_t>(8, 16384 / sizeof(Node)));

  Node* node_at(std::uint32_t index) const {
    if (index >= capacity_) return nullptr;
    Node* chunk = chunks_[index / kPerChunk].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : &chunk[index % kPerChunk];
  }

  const std::uint32_t capacity_;
  const std::uint32_t rest_;
  std::unique_ptr<std::atomic<Node*>[]> chunks_;
  mutable Lock lock_;
  std::uint32_t fresh_ = 0;  ///< slots below were handed out at least once
  std::uint32_t oldest_ = 0, newest_ = 0, resting_ = 0;
  std::uint32_t in_use_ = 0;
};

}  // namespace weft::base

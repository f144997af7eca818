// Posted receive buffers in order of posting; serves one queue pair or, as a shared receive queue,
// many. A buffer that was taken stays with its taker, who gives the element back by release(), in
// any order. The elements take no memory until the first post, and then as much as the most buffers
// that were posted need; one that was taken stays valid when there come to be more. Guarded by its
// own lock, which is the innermost but for the completion queue's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/biased_lock.h"
#include "weft/result.h"
#include "weft/work.h"

namespace weft::queue {

/// A posted buffer. Owned by its queue; a taker may read it until release().
struct ReceiveWqe {
  std::uint64_t wr_id;
  std::uint32_t num_sge;
  std::uint32_t index;
  std::span<const Sge> sges() const { return {reinterpret_cast<const Sge*>(this + 1), num_sge}; }
};

class ReceiveQueue {
 public:
  ReceiveQueue() = default;
  ~ReceiveQueue() { clear(); }
  ReceiveQueue(const ReceiveQueue&) = delete;
  ReceiveQueue& operator=(const ReceiveQueue&) = delete;

  void configure(std::uint32_t max_wr, std::uint32_t max_sge);
  /// Forgets all elements and gives the memory back. No element may be with a taker.
  void clear();

  /// Any thread. `posted` counts those before the first that is refused.
  Result<void> post(std::span<const ReceiveRequest> requests, std::size_t* posted);
  Result<void> post(const ReceiveRequest& request) {
    std::size_t posted = 0;
    return post({&request, 1}, &posted);
  }
  /// The oldest buffer, or nullptr: receiver not ready. Any thread.
  ReceiveWqe* take();
  void release(ReceiveWqe* wqe);
  /// Both in one step, for whoever fills the buffer at once. Only if its list has one element:
  /// false otherwise, and when there is no buffer.
  struct Single {
    std::uint64_t wr_id;
    Sge sge;
  };
  bool take_single(Single* out) {
    if (!lock_.try_enter()) [[unlikely]]
      return take_single_slowly(out);
    const bool taken = take_single_locked(out);
    lock_.leave();
    return taken;
  }

  /// The same, if fill(wr_id, sge) says that it has filled the buffer; short, and for one thread
  /// that posts and serves: false also where others may be at it.
  template <class Fill>
  bool fill_single(Fill fill) {
    if (!lock_.try_enter()) [[unlikely]]
      return false;
    const std::uint32_t count = count_.load(std::memory_order_relaxed);
    bool filled = false;
    if (count != 0) [[likely]] {
      const ReceiveWqe* wqe = slot(posted_[first_]);
      filled = wqe->num_sge == 1 && fill(wqe->wr_id, wqe->sges().front());
      if (filled) [[likely]]
        drop_first(wqe, count);
    }
    lock_.leave();
    return filled;
  }

  /// Wakes nobody: a limit that is crossed shows in take()'s caller through limit_reached().
  void arm_limit(std::uint32_t limit) { limit_.store(limit, std::memory_order_relaxed); }
  /// True once after the number of buffers fell below the armed limit.
  bool limit_reached();

  std::uint32_t posted() const { return count_.load(std::memory_order_relaxed); }
  std::uint32_t capacity() const { return capacity_; }
  std::uint32_t max_sge() const { return max_sge_; }
  /// Bytes that the elements take now: 0 before the first post.
  std::size_t ring_bytes() const { return block_ == nullptr ? 0 : block_bytes(); }

 private:
  /// In front of a block: the smaller one that it replaced.
  struct alignas(std::max_align_t) Block {
    std::byte* before;
  };

  bool grow();
  Result<void> refuse(const ReceiveRequest& request) const;
  std::size_t block_bytes() const;
  ReceiveWqe* slot(std::uint32_t index) const {
    return reinterpret_cast<ReceiveWqe*>(block_ + std::size_t{index} * stride_);
  }
  bool take_single_slowly(Single* out);
  bool take_single_locked(Single* out) {
    const std::uint32_t count = count_.load(std::memory_order_relaxed);
    if (count == 0) return false;
    const ReceiveWqe* wqe = slot(posted_[first_]);
    if (wqe->num_sge != 1) return false;
    *out = {wqe->wr_id, wqe->sges().front()};
    drop_first(wqe, count);
    return true;
  }
  void drop_first(const ReceiveWqe* wqe, std::uint32_t count) {
    free_[free_count_++] = wqe->index;
    first_ = first_ + 1 == size_ ? 0 : first_ + 1;
    count_.store(count - 1, std::memory_order_relaxed);
  }

  base::BiasedLock lock_;
  // One block: the elements, then a ring of posted indices, then a stack of free ones.
  std::byte* block_ = nullptr;
  std::uint32_t* posted_ = nullptr;
  std::uint32_t* free_ = nullptr;
  std::uint32_t size_ = 0;  ///< elements that there are
  std::uint32_t capacity_ = 0, max_sge_ = 0, stride_ = 0;
  std::uint32_t first_ = 0, free_count_ = 0;
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> limit_{0};
};

}  // namespace weft::queue

#include "queue/receive_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>

#include "base/assert.h"

namespace weft::queue {
namespace {
constexpr std::size_t kAlignment = alignof(std::max_align_t);
}

void ReceiveQueue::configure(std::uint32_t max_wr, std::uint32_t max_sge) {
  clear();
  capacity_ = max_wr;
  max_sge_ = max_sge;
  const std::size_t size = sizeof(ReceiveWqe) + max_sge * sizeof(Sge);
  stride_ = static_cast<std::uint32_t>((size + kAlignment - 1) & ~(kAlignment - 1));
}

bool ReceiveQueue::allocate() {
  block_ = static_cast<std::byte*>(::operator new(block_bytes(), std::nothrow));
  if (block_ == nullptr) return false;
  posted_ = reinterpret_cast<std::uint32_t*>(block_ + std::size_t{capacity_} * stride_);
  free_ = posted_ + capacity_;
  for (std::uint32_t i = 0; i < capacity_; ++i) free_[i] = capacity_ - 1 - i;
  free_count_ = capacity_;
  return true;
}

void ReceiveQueue::clear() {
  const std::lock_guard guard(lock_);
  ::operator delete(block_);
  block_ = nullptr;
  first_ = free_count_ = 0;
  count_.store(0, std::memory_order_relaxed);
}

std::size_t ReceiveQueue::block_bytes() const {
  return std::size_t{capacity_} * (stride_ + 2 * sizeof(std::uint32_t));
}

ReceiveWqe* ReceiveQueue::slot(std::uint32_t index) const {
  return reinterpret_cast<ReceiveWqe*>(block_ + std::size_t{index} * stride_);
}

Result<void> ReceiveQueue::post(const ReceiveRequest& request) {
  if (request.sges.size() > max_sge_) {
    return fail(Errc::kInvalidArgument,
                fmt::format("sges: {} elements, but the queue was created with at most {}",
                            request.sges.size(), max_sge_));
  }
  const std::lock_guard guard(lock_);
  if (block_ == nullptr && capacity_ > 0 && !allocate()) {
    return fail(Errc::kOutOfMemory, "no memory for the receive ring");
  }
  if (free_count_ == 0) {
    return fail(Errc::kQueueFull,
                fmt::format("receive queue full: all {} elements are in use", capacity_));
  }
  const std::uint32_t index = free_[--free_count_];
  ReceiveWqe* wqe = slot(index);
  wqe->wr_id = request.wr_id;
  wqe->num_sge = static_cast<std::uint32_t>(request.sges.size());
  wqe->index = index;
  std::copy(request.sges.begin(), request.sges.end(), reinterpret_cast<Sge*>(wqe + 1));
  const std::uint32_t count = count_.load(std::memory_order_relaxed);
  std::uint32_t last = first_ + count;
  if (last >= capacity_) last -= capacity_;
  posted_[last] = index;
  count_.store(count + 1, std::memory_order_relaxed);
  return {};
}

ReceiveWqe* ReceiveQueue::take() {
  const std::lock_guard guard(lock_);
  const std::uint32_t count = count_.load(std::memory_order_relaxed);
  if (count == 0) return nullptr;
  ReceiveWqe* wqe = slot(posted_[first_]);
  first_ = first_ + 1 == capacity_ ? 0 : first_ + 1;
  count_.store(count - 1, std::memory_order_relaxed);
  return wqe;
}

void ReceiveQueue::release(ReceiveWqe* wqe) {
  const std::lock_guard guard(lock_);
  WEFT_ASSERT(free_count_ < capacity_);
  free_[free_count_++] = wqe->index;
}

bool ReceiveQueue::limit_reached() {
  std::uint32_t limit = limit_.load(std::memory_order_relaxed);
  return limit != 0 && posted() < limit &&
         limit_.compare_exchange_strong(limit, 0, std::memory_order_relaxed);
}

}  // namespace weft::queue

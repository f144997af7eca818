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
constexpr std::uint32_t kFirstElements = 2;
}  // namespace

void ReceiveQueue::configure(std::uint32_t max_wr, std::uint32_t max_sge) {
  clear();
  capacity_ = max_wr;
  max_sge_ = max_sge;
  const std::size_t size = sizeof(ReceiveWqe) + max_sge * sizeof(Sge);
  stride_ = static_cast<std::uint32_t>((size + kAlignment - 1) & ~(kAlignment - 1));
}

bool ReceiveQueue::grow() {
  const std::uint32_t size = std::min(capacity_, size_ == 0 ? kFirstElements : 2 * size_);
  const std::size_t bytes = std::size_t{size} * (stride_ + 2 * sizeof(std::uint32_t));
  auto* memory = static_cast<std::byte*>(::operator new(sizeof(Block) + bytes, std::nothrow));
  if (memory == nullptr) return false;
  new (memory) Block{block_};
  std::byte* block = memory + sizeof(Block);
  auto* posted = reinterpret_cast<std::uint32_t*>(block + std::size_t{size} * stride_);
  std::uint32_t* free = posted + size;
  if (block_ != nullptr) std::memcpy(block, block_, std::size_t{size_} * stride_);
  const std::uint32_t count = count_.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < count; ++i) posted[i] = posted_[(first_ + i) % size_];
  for (std::uint32_t i = 0; i < free_count_; ++i) free[i] = free_[i];
  for (std::uint32_t i = size; i-- > size_;) free[free_count_++] = i;
  block_ = block;
  posted_ = posted;
  free_ = free;
  first_ = 0;
  size_ = size;
  return true;
}

void ReceiveQueue::clear() {
  const std::lock_guard guard(lock_);
  while (block_ != nullptr) {
    std::byte* memory = block_ - sizeof(Block);
    block_ = reinterpret_cast<Block*>(memory)->before;
    ::operator delete(memory);
  }
  size_ = first_ = free_count_ = 0;
  count_.store(0, std::memory_order_relaxed);
}

std::size_t ReceiveQueue::block_bytes() const {
  return std::size_t{size_} * (stride_ + 2 * sizeof(std::uint32_t));
}

Result<void> ReceiveQueue::refuse(const ReceiveRequest& request) const {
  if (request.sges.size() > max_sge_) {
    return fail(Errc::kInvalidArgument,
                fmt::format("sges: {} elements, but the queue was created with at most {}",
                            request.sges.size(), max_sge_));
  }
  if (size_ == capacity_) {
    return fail(Errc::kQueueFull,
                fmt::format("receive queue full: all {} elements are in use", capacity_));
  }
  return fail(Errc::kOutOfMemory, "no memory for the receive ring");
}

Result<void> ReceiveQueue::post(std::span<const ReceiveRequest> requests, std::size_t* posted) {
  *posted = 0;
  const std::lock_guard guard(lock_);
  std::uint32_t count = count_.load(std::memory_order_relaxed);
  for (const ReceiveRequest& request : requests) {
    const bool has_room = free_count_ > 0 || (size_ < capacity_ && grow());
    if (!has_room || request.sges.size() > max_sge_) [[unlikely]]
      return refuse(request);
    const std::uint32_t index = free_[--free_count_];
    ReceiveWqe* wqe = slot(index);
    wqe->wr_id = request.wr_id;
    wqe->num_sge = static_cast<std::uint32_t>(request.sges.size());
    wqe->index = index;
    Sge* to = reinterpret_cast<Sge*>(wqe + 1);
    for (const Sge& sge : request.sges) *to++ = sge;
    std::uint32_t last = first_ + count;
    if (last >= size_) last -= size_;
    posted_[last] = index;
    count_.store(++count, std::memory_order_relaxed);
    ++*posted;
  }
  return {};
}

ReceiveWqe* ReceiveQueue::take() {
  const std::lock_guard guard(lock_);
  const std::uint32_t count = count_.load(std::memory_order_relaxed);
  if (count == 0) return nullptr;
  ReceiveWqe* wqe = slot(posted_[first_]);
  first_ = first_ + 1 == size_ ? 0 : first_ + 1;
  count_.store(count - 1, std::memory_order_relaxed);
  return wqe;
}

bool ReceiveQueue::take_single_slowly(Single* out) {
  const std::lock_guard guard(lock_);
  return take_single_locked(out);
}

void ReceiveQueue::release(ReceiveWqe* wqe) {
  const std::lock_guard guard(lock_);
  WEFT_ASSERT(free_count_ < size_);
  free_[free_count_++] = wqe->index;
}

bool ReceiveQueue::limit_reached() {
  std::uint32_t limit = limit_.load(std::memory_order_relaxed);
  return limit != 0 && posted() < limit &&
         limit_.compare_exchange_strong(limit, 0, std::memory_order_relaxed);
}

}  // namespace weft::queue

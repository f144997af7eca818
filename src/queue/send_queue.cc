#include "queue/send_queue.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace weft::queue {
namespace {
constexpr std::size_t kSendAlignment = alignof(std::max_align_t);
constexpr std::uint32_t kFirstSendElements = 2;
}  // namespace

void SendQueue::configure(const QueuePairLimits& limits) {
  release();
  capacity_ = limits.max_send_wr;
  max_sge_ = static_cast<std::uint16_t>(limits.max_send_sge);
  max_inline_ = static_cast<std::uint16_t>(limits.max_inline_bytes);
  const std::size_t tail = std::max<std::size_t>(max_sge_ * sizeof(Sge), max_inline_);
  stride_ = static_cast<std::uint32_t>((sizeof(SendWqe) + tail + kSendAlignment - 1) &
                                       ~(kSendAlignment - 1));
}

bool SendQueue::grow() {
  if (size_ >= capacity_) return false;
  const std::uint32_t elements = ring_ == nullptr ? kFirstSendElements : 2 * (mask_ + 1);
  const std::uint32_t mask = std::min(elements, std::bit_ceil(capacity_)) - 1;
  auto* block = static_cast<std::byte*>(
      ::operator new(sizeof(Block) + (std::size_t{mask} + 1) * stride_, std::nothrow));
  if (block == nullptr) return false;
  new (block) Block{ring_};
  std::byte* ring = block + sizeof(Block);
  for (std::uint32_t i = head_; i != tail_; ++i) {
    std::memcpy(ring + std::size_t{i & mask} * stride_, slot(i), stride_);
  }
  ring_ = ring;
  mask_ = mask;
  size_ = std::min(mask + 1, capacity_);
  return true;
}

void SendQueue::release() {
  while (ring_ != nullptr) {
    std::byte* block = ring_ - sizeof(Block);
    ring_ = reinterpret_cast<Block*>(block)->before;
    ::operator delete(block);
  }
  head_ = tail_ = size_ = mask_ = 0;
}

std::size_t SendQueue::ring_bytes() const {
  return ring_ == nullptr ? 0 : (std::size_t{mask_} + 1) * stride_;
}

}  // namespace weft::queue

#include "queue/send_queue.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace weft::queue {
namespace {
constexpr std::size_t kSendAlignment = alignof(std::max_align_t);
constexpr std::uint32_t kFirstSendElements = 2;
/// Inline bytes that each element has room for before anybody sends more: most send none.
constexpr std::size_t kFirstInlineBytes = 64;
}  // namespace

void SendQueue::configure(const QueuePairLimits& limits, bool routed) {
  release();
  route_bytes_ = routed ? sizeof(Route) : 0;
  capacity_ = limits.max_send_wr;
  max_sge_ = static_cast<std::uint16_t>(limits.max_send_sge);
  max_inline_ = static_cast<std::uint16_t>(limits.max_inline_bytes);
  inline_room_ = static_cast<std::uint16_t>(std::min<std::size_t>(max_inline_, kFirstInlineBytes));
  stride_ = stride_for(std::max<std::size_t>(max_sge_ * sizeof(Sge), inline_room_));
}

std::uint32_t SendQueue::stride_for(std::size_t bytes) const {
  return static_cast<std::uint32_t>((route_bytes_ + sizeof(SendWqe) + bytes + kSendAlignment - 1) &
                                    ~(kSendAlignment - 1));
}

bool SendQueue::grow() {
  if (size_ >= capacity_) return false;
  const std::uint32_t elements = ring_ == nullptr ? kFirstSendElements : 2 * (mask_ + 1);
  return move_to(std::min(elements, std::bit_ceil(capacity_)) - 1, stride_);
}

bool SendQueue::widen() {
  const std::uint32_t stride =
      stride_for(std::max<std::size_t>(max_sge_ * sizeof(Sge), max_inline_));
  if (ring_ == nullptr) {
    stride_ = stride;
  } else if (!move_to(mask_, stride)) {
    return false;
  }
  inline_room_ = max_inline_;
  return true;
}

bool SendQueue::move_to(std::uint32_t mask, std::uint32_t stride) {
  auto* block = static_cast<std::byte*>(
      ::operator new(sizeof(Block) + (std::size_t{mask} + 1) * stride, std::nothrow));
  if (block == nullptr) return false;
  new (block) Block{ring_};
  std::byte* ring = block + sizeof(Block) + route_bytes_;
  for (std::uint32_t i = head_; i != tail_; ++i) {
    std::memcpy(ring - route_bytes_ + std::size_t{i & mask} * stride,
                reinterpret_cast<std::byte*>(slot(i)) - route_bytes_, stride_);
  }
  ring_ = ring;
  mask_ = mask;
  stride_ = stride;
  size_ = std::min(mask + 1, capacity_);
  return true;
}

void SendQueue::release() {
  while (ring_ != nullptr) {
    std::byte* block = ring_ - route_bytes_ - sizeof(Block);
    ring_ = reinterpret_cast<Block*>(block)->before;
    ::operator delete(block);
  }
  head_ = tail_ = size_ = mask_ = 0;
}

std::size_t SendQueue::ring_bytes() const {
  return ring_ == nullptr ? 0 : (std::size_t{mask_} + 1) * stride_;
}

}  // namespace weft::queue

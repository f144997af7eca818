#include "queue/send_queue.h"

#include <algorithm>
#include <bit>
#include <new>

namespace weft::queue {
namespace {
constexpr std::size_t kAlignment = alignof(std::max_align_t);
}

void SendQueue::configure(const QueuePairLimits& limits) {
  release();
  capacity_ = limits.max_send_wr;
  mask_ = capacity_ == 0 ? 0 : std::bit_ceil(capacity_) - 1;
  max_sge_ = static_cast<std::uint16_t>(limits.max_send_sge);
  max_inline_ = static_cast<std::uint16_t>(limits.max_inline_bytes);
  const std::size_t tail = std::max<std::size_t>(max_sge_ * sizeof(Sge), max_inline_);
  stride_ =
      static_cast<std::uint32_t>((sizeof(SendWqe) + tail + kAlignment - 1) & ~(kAlignment - 1));
}

bool SendQueue::allocate() {
  ring_ = static_cast<std::byte*>(::operator new((std::size_t{mask_} + 1) * stride_, std::nothrow));
  return ring_ != nullptr;
}

void SendQueue::release() {
  ::operator delete(ring_);
  ring_ = nullptr;
  head_ = tail_ = 0;
}

std::size_t SendQueue::ring_bytes() const {
  return ring_ == nullptr ? 0 : (std::size_t{mask_} + 1) * stride_;
}

}  // namespace weft::queue

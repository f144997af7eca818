#include "queue/completion_queue.h"

#include <bit>
#include <new>

namespace weft::queue {

CompletionQueue::CompletionQueue(std::uint32_t capacity, CompletionListener* listener)
    : capacity_(capacity), listener_(listener) {}

std::size_t CompletionQueue::take_slowly(std::span<Completion> out) {
  // In a forked child a lock that another thread held stays held.
  if (generation_ != host::fork_generation()) return 0;
  const std::lock_guard guard(lock_);
  return take_locked(out);
}

bool CompletionQueue::make_room() {
  const std::uint32_t waiting = size();
  if (waiting < capacity_) {
    constexpr std::uint32_t kFirst = 64;
    const std::uint32_t wanted = ring_ == nullptr ? kFirst : 2 * (mask_ + 1);
    if (move_to_ring(std::min(wanted, std::bit_ceil(capacity_)))) return true;
  } else if (ignores_overrun_.load(std::memory_order_relaxed)) {
    head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return true;
  }
  overrun_.store(true, std::memory_order_relaxed);
  if (listener_ != nullptr) listener_->on_completion_overrun(*this);
  return false;
}

bool CompletionQueue::move_to_ring(std::uint32_t slots) {
  std::unique_ptr<Completion[]> ring(new (std::nothrow) Completion[slots]);
  if (ring == nullptr) return false;
  const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
  for (std::uint32_t i = head_.load(std::memory_order_relaxed); i != tail; ++i) {
    ring[i & (slots - 1)] = ring_[i & mask_];
  }
  ring_ = std::move(ring);
  mask_ = slots - 1;
  room_ = std::min(capacity_, slots);
  return true;
}

void CompletionQueue::notify(bool solicited) {
  if (armed_ == Armed::kSolicited && !solicited) return;
  armed_ = Armed::kNo;
  notified_ = tail_.load(std::memory_order_relaxed);
  if (listener_ != nullptr) listener_->on_completion_event(*this);
}

bool CompletionQueue::request_notify(bool solicited_only) {
  const std::lock_guard guard(lock_);
  const bool was_armed = armed_ != Armed::kNo;
  // An armed "any" is never weakened to "solicited" by a later call.
  if (armed_ != Armed::kAny) armed_ = solicited_only ? Armed::kSolicited : Armed::kAny;
  const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
  const std::uint32_t newest = armed_ == Armed::kSolicited ? last_solicited_ : tail;
  const auto is_after = [&](std::uint32_t seen) { return tail - seen > tail - newest; };
  if (is_after(notified_) && is_after(head_.load(std::memory_order_relaxed))) notify(true);
  return !was_armed;
}

void CompletionQueue::forget(Qpn qpn, Forgotten what) {
  const std::lock_guard guard(lock_);
  const std::uint32_t head = head_.load(std::memory_order_relaxed);
  const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
  std::uint32_t kept = tail;  // from the newest to the oldest, so that the tail stays where it is
  for (std::uint32_t at = tail; at != head; --at) {
    const Completion& completion = ring_[(at - 1) & mask_];
    const bool done = completion.ok() && completion.op < CompletionOp::kReceive;
    if (completion.qpn != qpn || (done && what == Forgotten::kAllButDone)) {
      ring_[--kept & mask_] = completion;
    }
  }
  head_.store(kept, std::memory_order_relaxed);
}

bool CompletionQueue::has_received(Qpn qpn) {
  const std::lock_guard guard(lock_);
  const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
  for (std::uint32_t at = head_.load(std::memory_order_relaxed); at != tail; ++at) {
    const Completion& completion = ring_[at & mask_];
    if (completion.qpn == qpn && completion.ok() && completion.op >= CompletionOp::kReceive) {
      return true;
    }
  }
  return false;
}

bool CompletionQueue::resize(std::uint32_t capacity) {
  const std::lock_guard guard(lock_);
  if (capacity == 0 || size() > capacity) return false;
  capacity_ = capacity;
  if (ring_ == nullptr) return true;
  room_ = std::min(capacity, mask_ + 1);
  // Without memory for a smaller ring the larger one stays.
  if (mask_ >= std::bit_ceil(capacity)) move_to_ring(std::bit_ceil(capacity));
  return true;
}

}  // namespace weft::queue

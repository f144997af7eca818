// The send work queue: a ring of work queue elements in posting order. The ring takes no memory
// until the first post, and then as much as the most elements that were outstanding need; room for
// long inline data comes with the first of it. Inline bytes that a port still reads stay where they
// are until release(), also when the ring grows. Guarded by the queue pair's send_lock; lives
// inside the queue pair.
//
//   head            cursor (the path's)        tail
//    |  executed, not  |   not yet executed     |
//    |  yet completed  |                        |
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "weft/queue_pair_attributes.h"
#include "weft/work.h"

namespace weft::queue {

class QueuePair;

/// A posted request. What the services keep per request (sequence numbers, progress) is here too.
struct SendWqe {
  std::uint64_t wr_id;
  SendOp op;
  SendFlags flags;
  std::uint8_t num_sge;
  bool finished;            ///< executed; waits for its turn to complete
  CompletionStatus status;  ///< of a finished element
  std::uint32_t length;     ///< bytes of the message (inline bytes included), up to 2^31
  std::uint32_t immediate;  ///< or, for the invalidates, the key
  Psn first_psn;            ///< framed: of its first frame
  bool started;             ///< framed: first_psn is assigned
  SrqNumber remote_srq;     ///< extended connections
  bool signaled() const { return has(flags, SendFlags::kSignaled); }
  bool is_inline() const { return has(flags, SendFlags::kInline); }

  struct Rdma {
    RemoteAddress remote;
    std::uint64_t compare;
    std::uint64_t operand;
  };
  struct Datagram {
    AddressVector destination;
    Qpn qpn;
    QKey qkey;
  };
  union {
    Rdma rdma;
    Datagram datagram;
    WindowBinding bind;
    Nanoseconds delay_ns;
  };

  /// The gather (scatter) list, or the inline bytes, lie directly behind the element.
  Sge* sges() { return reinterpret_cast<Sge*>(this + 1); }
  std::span<const Sge> sge_list() const {
    return {reinterpret_cast<const Sge*>(this + 1), num_sge};
  }
  std::byte* inline_bytes() { return reinterpret_cast<std::byte*>(this + 1); }
  const std::byte* inline_bytes() const { return reinterpret_cast<const std::byte*>(this + 1); }
};

/// Where a request of the reliable datagram service goes, in front of its element; and in the queue
/// of an end-to-end context, whose it is.
struct alignas(std::max_align_t) Route {
  AddressVector destination;
  Qpn qpn;
  QKey qkey;
  Qpn source_qpn;
  PdId pd;
  QueuePair* source = nullptr;  ///< whose element it is; null: nobody waits for it any more
  std::uint32_t index = 0;      ///< in a context: there; else of the next one for the same context
  std::uint32_t epoch = 0;      ///< the source's when it was posted
};

class SendQueue {
 public:
  SendQueue() = default;
  ~SendQueue() { release(); }
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  /// `routed`: each element has a Route.
  void configure(const QueuePairLimits& limits, bool routed = false);
  /// Gives the ring's memory back; all elements are forgotten.
  void release();

  /// The element behind the last one, to be filled and then committed; nullptr when the queue is
  /// full or there is no memory for the ring.
  SendWqe* reserve() {
    if (tail_ - head_ >= size_ && !grow()) [[unlikely]]
      return nullptr;
    return slot(tail_);
  }
  void commit() { ++tail_; }
  /// Inline bytes that the next element has room for. More, up to max_inline(), need widen() first;
  /// false: no memory.
  std::uint32_t inline_room() const { return inline_room_; }
  bool widen();

  SendWqe& at(std::uint32_t index) {
    WEFT_ASSERT(index - head_ < tail_ - head_);
    return *slot(index);
  }
  SendWqe& front() { return at(head_); }
  /// Of a queue whose elements have one.
  static Route& route_of(SendWqe& wqe) { return *(reinterpret_cast<Route*>(&wqe) - 1); }
  static const Route& route_of(const SendWqe& wqe) {
    return *(reinterpret_cast<const Route*>(&wqe) - 1);
  }
  /// Takes the last element out again.
  void unpost() {
    WEFT_ASSERT(head_ != tail_);
    --tail_;
  }
  void pop() {
    WEFT_ASSERT(head_ != tail_);
    ++head_;
  }

  std::uint32_t head() const { return head_; }
  std::uint32_t tail() const { return tail_; }
  bool empty() const { return head_ == tail_; }
  std::uint32_t capacity() const { return capacity_; }
  std::uint32_t max_sge() const { return max_sge_; }
  std::uint32_t max_inline() const { return max_inline_; }
  /// Bytes that the ring takes now: 0 before the first post.
  std::size_t ring_bytes() const;

 private:
  /// In front of the elements: the smaller ring that this one replaced.
  struct alignas(std::max_align_t) Block {
    std::byte* before;
  };

  std::uint32_t stride_for(std::size_t bytes) const;
  bool grow();
  /// Another ring takes the place of this one, if any.
  bool move_to(std::uint32_t mask, std::uint32_t stride);
  SendWqe* slot(std::uint32_t index) {
    return reinterpret_cast<SendWqe*>(ring_ + std::size_t{index & mask_} * stride_);
  }

  std::byte* ring_ = nullptr;  ///< the first element, behind its route
  std::uint32_t head_ = 0, tail_ = 0;
  std::uint32_t size_ = 0;  ///< elements that may be outstanding in the ring as it is
  std::uint32_t capacity_ = 0, mask_ = 0, stride_ = 0;
  std::uint16_t max_sge_ = 0, max_inline_ = 0, inline_room_ = 0;
  std::uint16_t route_bytes_ = 0;
};

}  // namespace weft::queue

// The completion queue: a bounded ring that several queue pairs fill and any thread empties. Its
// memory comes with the first completion. Fewer than `capacity` completions may wait in it; one
// more is lost, counted, and reported as an asynchronous error (the program sized it too small).
//
// Notification: request_notify() arms the queue; the next completion (or the next solicited or
// failed one) disarms it and tells the channel. Its lock is the innermost of all but the channel's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "base/lock.h"
#include "weft/work.h"

namespace weft::queue {

class CompletionQueue;

/// Who is told that an armed queue got a completion, or that one was lost.
class CompletionListener {
 public:
  virtual ~CompletionListener() = default;
  /// Called under the queue's lock: must be short and must not call back.
  virtual void on_completion_event(CompletionQueue& cq) = 0;
  virtual void on_completion_overrun(CompletionQueue& cq) = 0;
};

class CompletionQueue {
 public:
  CompletionQueue(std::uint32_t capacity, CompletionListener* listener);
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  /// Any thread. `solicited`: wakes also those that wait for solicited events only.
  void push(const Completion& completion, bool solicited) {
    const std::lock_guard guard(lock_);
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_.load(std::memory_order_relaxed) >= capacity_ || ring_ == nullptr)
        [[unlikely]] {
      if (!make_room()) return;
    }
    ring_[tail & mask_] = completion;
    // release pairs with the acquire in empty(): a poller that sees the new tail sees the entry.
    tail_.store(tail + 1, std::memory_order_release);
    if (armed_ != Armed::kNo) [[unlikely]] {
      notify(solicited || !completion.ok());
    }
  }

  /// Takes up to out.size() completions, oldest first. Any thread.
  std::size_t poll(std::span<Completion> out) {
    if (empty()) return 0;
    const std::lock_guard guard(lock_);
    std::uint32_t head = head_.load(std::memory_order_relaxed);
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    std::size_t n = 0;
    while (n < out.size() && head != tail) out[n++] = ring_[head++ & mask_];
    head_.store(head, std::memory_order_relaxed);
    return n;
  }

  bool empty() const {
    return head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_acquire);
  }
  std::uint32_t size() const {
    return tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_relaxed);
  }

  /// Arms the queue. A completion that came before this call gives no event: poll once more.
  void request_notify(bool solicited_only);
  /// Changes the capacity; false if more completions than that are waiting, or without memory.
  bool resize(std::uint32_t capacity);

  std::uint32_t capacity() const { return capacity_; }
  bool overrun() const { return overrun_.load(std::memory_order_relaxed); }
  std::size_t ring_bytes() const {
    return ring_ ? (std::size_t{mask_} + 1) * sizeof(Completion) : 0;
  }

 private:
  enum class Armed : std::uint8_t { kNo, kSolicited, kAny };

  bool make_room();
  void notify(bool solicited);

  base::Lock lock_;
  Armed armed_ = Armed::kNo;
  std::atomic<bool> overrun_{false};
  std::uint32_t capacity_;
  std::uint32_t mask_ = 0;
  std::atomic<std::uint32_t> head_{0}, tail_{0};
  std::unique_ptr<Completion[]> ring_;
  CompletionListener* listener_;
};

}  // namespace weft::queue

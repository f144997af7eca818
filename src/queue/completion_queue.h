// The completion queue: a bounded ring that several queue pairs fill and any thread empties. It
// takes no memory until the first completion, and then as much as the most completions that waited
// need: a queue that is sized for thousands of connections is small while they are quiet.
// `capacity` completions may wait in it; one more is lost, counted, and reported as an asynchronous
// error (the program sized it too small), unless the program wants the newest of them and no error.
//
// Notification: request_notify() arms the queue; the next completion (or the next solicited or
// failed one) since the last event disarms it and tells the channel. Its lock is the innermost of
// all but the channel's.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "base/biased_lock.h"
#include "host/fork.h"
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
    emplace(solicited, [&](Completion& slot) { slot = completion; });
  }
  /// The same, filled in place: fill(slot) gets a completion whose fields hold anything.
  template <class Fill>
  void emplace(bool solicited, Fill fill) {
    const std::lock_guard guard(lock_);
    place(solicited, fill);
  }
  /// The same by whoever polls, who has found the queue empty: the completion goes straight to
  /// *out, and not by way of the ring. False: it is in the ring, since others wait before it, or
  /// for it.
  template <class Fill>
  bool pass_to_poller(Completion* out, Fill fill) {
    const std::lock_guard guard(lock_);
    const bool straight = empty() && armed_ == Armed::kNo;
    if (straight) [[likely]] {
      fill(*out);
    } else {
      place(false, fill);
    }
    return straight;
  }

  /// Takes up to out.size() completions, oldest first. Any thread.
  std::size_t poll(std::span<Completion> out) { return empty() ? 0 : take(out); }
  /// The same for a caller that has just asked empty().
  std::size_t take(std::span<Completion> out) {
    if (!lock_.try_enter()) [[unlikely]]
      return take_slowly(out);
    const std::size_t n = take_locked(out);
    lock_.leave();
    return n;
  }

  /// The oldest one; false: there is none.
  bool take_one(Completion* out) {
    if (!lock_.try_enter()) [[unlikely]]
      return take_slowly({out, 1}) == 1;
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    const bool any = head != tail_.load(std::memory_order_relaxed);
    if (any) [[likely]] {
      *out = ring_[head & mask_];
      head_.store(head + 1, std::memory_order_relaxed);
    }
    lock_.leave();
    return any;
  }

  /// The same, with each completion shown where it lies: visit(const Completion&), which must be
  /// short and must not call back. Gives how many.
  template <class Visit>
  std::size_t take_each(std::size_t most, Visit visit) {
    const std::lock_guard guard(lock_);
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    const std::uint32_t waiting = tail_.load(std::memory_order_relaxed) - head;
    const auto n = static_cast<std::uint32_t>(std::min<std::size_t>(waiting, most));
    for (std::uint32_t i = 0; i < n; ++i) visit(ring_[(head + i) & mask_]);
    head_.store(head + n, std::memory_order_relaxed);
    return n;
  }

  bool empty() const {
    return head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_acquire);
  }
  std::uint32_t size() const {
    return tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_relaxed);
  }

  /// Arms the queue. A completion that waits, and came after the last event, gives its event at
  /// once: a program that arms too late does not wait for ever. False: it was armed already.
  bool request_notify(bool solicited_only);
  /// For the owner, when nobody else uses it any more.
  bool armed() const { return armed_ != Armed::kNo; }
  /// Takes out what waits of that queue pair, whose owner does not want it any more: all of it, or
  /// all but the news that its own work was done.
  enum class Forgotten : std::uint8_t { kAll, kAllButDone };
  void forget(Qpn qpn, Forgotten what);
  /// Whether a message that this queue pair has received waits here.
  bool has_received(Qpn qpn);
  /// Changes the capacity; false if more completions than that are waiting.
  bool resize(std::uint32_t capacity);

  /// From now on a completion that finds no room takes the place of the oldest, and nobody is told.
  void ignore_overrun() { ignores_overrun_.store(true, std::memory_order_relaxed); }

  std::uint32_t capacity() const { return capacity_; }
  bool overrun() const { return overrun_.load(std::memory_order_relaxed); }
  std::size_t ring_bytes() const {
    return ring_ ? (std::size_t{mask_} + 1) * sizeof(Completion) : 0;
  }

 private:
  enum class Armed : std::uint8_t { kNo, kSolicited, kAny };

  template <class Fill>
  void place(bool solicited, Fill& fill) {
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    // `room_` is 0 before the ring exists, so one comparison covers all.
    if (tail - head_.load(std::memory_order_relaxed) >= room_) [[unlikely]] {
      if (!make_room()) return;
    }
    Completion& slot = ring_[tail & mask_];
    fill(slot);
    const bool failed = !slot.ok();
    // release pairs with the acquire in empty(): a poller that sees the new tail sees the entry.
    tail_.store(tail + 1, std::memory_order_release);
    if (solicited || failed) last_solicited_ = tail + 1;
    if (armed_ != Armed::kNo) [[unlikely]] {
      notify(solicited || failed);
    }
  }
  std::size_t take_locked(std::span<Completion> out) {
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    const std::uint32_t waiting = tail_.load(std::memory_order_relaxed) - head;
    const auto n = static_cast<std::uint32_t>(std::min<std::size_t>(waiting, out.size()));
    for (std::uint32_t i = 0; i < n; ++i) out[i] = ring_[(head + i) & mask_];
    head_.store(head + n, std::memory_order_relaxed);
    return n;
  }
  std::size_t take_slowly(std::span<Completion> out);
  bool make_room();
  bool move_to_ring(std::uint32_t slots);
  void notify(bool solicited);

  base::BiasedLock lock_;
  Armed armed_ = Armed::kNo;
  std::atomic<bool> overrun_{false};
  std::atomic<bool> ignores_overrun_{false};
  std::uint32_t capacity_;
  std::uint32_t room_ = 0;  ///< completions that the ring takes as it is, capacity_ at most
  std::uint32_t mask_ = 0;
  std::atomic<std::uint32_t> head_{0}, tail_{0};
  std::uint32_t notified_ = 0;        ///< the tail at the last event
  std::uint32_t last_solicited_ = 0;  ///< the tail behind the newest solicited or failed one
  std::unique_ptr<Completion[]> ring_;
  CompletionListener* listener_;
  const unsigned generation_ = host::fork_generation();  ///< of the process that made it
};

}  // namespace weft::queue

// Threads that wait for something to happen in one context. One of them, the leader, sleeps on the
// descriptor; the others wait for it, or for any thread that finds something while it polls. Part
// of a context; any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace weft::channel {

class Sleepers {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  Sleepers();
  ~Sleepers();
  Sleepers(const Sleepers&) = delete;
  Sleepers& operator=(const Sleepers&) = delete;

  /// To be watched along with what wakes the context.
  int wake_fd() const { return wake_; }
  /// Who wants to sleep takes a ticket, looks once more, and then sleeps: what happens in between
  /// makes sleep() return at once.
  std::uint64_t ticket();
  /// Until something happens on `fd`, somebody calls wake(), or the deadline passes.
  void sleep(std::uint64_t ticket, int fd, Deadline deadline);
  /// Something happened that a sleeper may be waiting for.
  void wake() {
    if (count_.load(std::memory_order_seq_cst) != 0) wake_slow();
  }

 private:
  void wake_slow();

  std::atomic<std::uint32_t> count_{0};  // tickets that are out
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t generation_ = 0;
  bool led_ = false;
  int wake_ = -1;
};

}  // namespace weft::channel

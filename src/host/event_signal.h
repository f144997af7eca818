// How a program waits for a queue of events: a descriptor that is readable while the queue holds
// something, and a sleep that takes the place of read(). The descriptor is the program's to poll,
// to duplicate, to hand to a child and to change by fcntl at any time; so nothing here depends on
// its flags, and no call on it blocks. Owned by the queue. raise() and clear() are called under the
// queue's lock, which keeps the two in step; wait() under no lock at all.
#pragma once

#include <atomic>
#include <cstdint>

#include "weft/result.h"

namespace weft::host {

class EventSignal {
 public:
  EventSignal() = default;
  ~EventSignal();
  EventSignal(const EventSignal&) = delete;
  EventSignal& operator=(const EventSignal&) = delete;

  /// Makes the descriptor, non-blocking until somebody changes that. `raised`: the queue holds
  /// something already. Under the queue's lock.
  Result<int> open(bool raised);
  /// Less than 0: not made yet, and in a child after fork, where it is the parent's.
  int fd() const;

  /// Something was put into the queue.
  void raise();
  /// The queue has become empty.
  void clear();

  /// For wait(): to be asked before the queue is found empty.
  std::uint32_t seen() const {
    return sequence_.load(std::memory_order_acquire);  // pairs with raise()
  }
  /// Sleeps until something was put in since seen(), or for no reason. 0 or errno, as read() would
  /// give it: EAGAIN if the descriptor is not to block; EINTR unless the signal's handler restarts
  /// calls. A thread that is cancelled ends here.
  int wait(std::uint32_t seen) const;

 private:
  int fd_ = -1;
  unsigned generation_ = 0;  // of the process that made the descriptor
  std::atomic<std::uint32_t> sequence_{0};
  // seq_cst with sequence_: who sleeps is counted before it compares, who raises wakes after that.
  mutable std::atomic<std::uint32_t> sleepers_{0};
};

/// Takes what an eventfd has counted, whatever its flags say; never blocks. False: there is none.
bool take_count(int fd);

/// Sleeps while the word has this value, like a read that waits in the kernel: a signal ends it
/// (EINTR) unless its handler restarts calls, and a thread that is cancelled ends in it. 0 or
/// errno.
int sleep_on(const std::atomic<std::uint32_t>& word, std::uint32_t value);
void wake_all(const std::atomic<std::uint32_t>& word);

}  // namespace weft::host

// The descriptor on which a program waits for a queue of events: readable while the queue's signal
// is raised and, where that helps, while one of a few sockets is: then whatever arrives there wakes
// the program itself, and not first a thread that wakes it. It is an epoll set. The program polls
// it, duplicates it, hands it to children and changes its flags; nobody reads from it. Owned by the
// queue of events. One thread at a time, but for fd() and blocks().
#pragma once

#include <span>
#include <vector>

#include "weft/result.h"

namespace weft::host {

class WaitSet {
 public:
  WaitSet() = default;
  ~WaitSet();
  WaitSet(const WaitSet&) = delete;
  WaitSet& operator=(const WaitSet&) = delete;

  /// Makes the descriptor, non-blocking until somebody changes that.
  Result<int> open(int signal);
  /// Less than 0: not made yet, and in a child after fork, where it is the parent's.
  int fd() const;
  /// What the descriptor's flags say now: a call that finds nothing waits, or gives EAGAIN. errno
  /// as an error.
  Result<bool> blocks() const;

  /// From now on it is readable when one of these is, and of others no more. False: the kernel
  /// refuses one of them, as for too many sets inside each other; then none is carried.
  bool carry(std::span<const int> sockets);
  bool carries() const { return !carried_.empty(); }

 private:
  int fd_ = -1;
  unsigned generation_ = 0;  // of the process that made the descriptor
  std::vector<int> carried_;
};

}  // namespace weft::host

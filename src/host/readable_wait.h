// Sleeps until one of several descriptors is readable, and otherwise like a read() that waits: a
// signal whose handler restarts calls does not end it, and a thread that is cancelled ends in it.
// poll() alone always ends when a handler has run. Any thread; holds no lock.
#pragma once

#include <poll.h>

#include <csignal>
#include <span>

#include "weft/types.h"

namespace weft::host {

/// While one lives, its thread is cancelled nowhere but inside wait_readable(), if it may be
/// cancelled at all: a call that makes progress must not end in the middle of it.
class OnlyWaitIsCancelled {
 public:
  OnlyWaitIsCancelled();
  ~OnlyWaitIsCancelled();
  OnlyWaitIsCancelled(const OnlyWaitIsCancelled&) = delete;
  OnlyWaitIsCancelled& operator=(const OnlyWaitIsCancelled&) = delete;

 private:
  int before_ = 0;
};

/// While one lives, its thread's signals stay pending, but for those that a fault raises: whoever
/// waits can see which ones come. It lives as long as the call that waits, which works between two
/// sleeps: a signal that was handled there would end nothing. A thread that is cancelled gets its
/// own mask back, too.
class SignalsHeld {
 public:
  SignalsHeld() { hold(); }
  ~SignalsHeld() { release(); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

  /// The thread's own mask.
  const sigset_t& before() const { return before_; }
  /// Those that are pending are handled now.
  void let_through() {
    release();
    hold();
  }
  /// Of the signals that are about to be handled, one has a handler that does not restart calls.
  bool interrupted() const;

 private:
  void hold();
  void release() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  sigset_t before_{};  ///< whole: masks are compared
};

/// 0: one of them is readable (see revents), the time is over, or for no reason; else errno, EINTR
/// above all, also for a signal that came since they are held. kNever: no limit.
int wait_readable(SignalsHeld& signals, std::span<pollfd> fds, Nanoseconds timeout_ns);

}  // namespace weft::host

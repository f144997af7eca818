#include "host/readable_wait.h"

#include <pthread.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "base/assert.h"
#include "base/per_thread.h"
#include "host/fd.h"

namespace weft::host {
namespace {

constexpr std::size_t kMostFds = 31;

/// A descriptor that is readable while a signal is pending that its thread would take.
class PendingSignals {
 public:
  int fd(const sigset_t& blocked) {
    if (fd_.checked() >= 0 && std::memcmp(&blocked, &blocked_, sizeof blocked) == 0) {
      return fd_.get();
    }
    sigset_t taken;
    sigfillset(&taken);
    for (int number = 1; number < NSIG; ++number) {
      if (sigismember(&blocked, number) == 1) sigdelset(&taken, number);
    }
    const ForkHold hold;
    fd_ = Fd(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
    blocked_ = blocked;
    return fd_.get();
  }

 private:
  Fd fd_;
  sigset_t blocked_{};
};

/// Whether the thread's owner lets it be cancelled, while an OnlyWaitIsCancelled lives.
[[gnu::tls_model("initial-exec")]] constinit thread_local bool may_cancel_wait = false;

/// A cancellation point, where the thread may be cancelled.
int poll_as_allowed(pollfd* fds, nfds_t count, const timespec* end) {
  if (!may_cancel_wait) return ppoll(fds, count, end, nullptr);
  int before = 0;
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
  const int n = ppoll(fds, count, end, nullptr);
  const int error = errno;
  pthread_setcancelstate(before, nullptr);
  errno = error;
  return n;
}

}  // namespace

void SignalsHeld::hold() {
  sigset_t all;
  sigfillset(&all);
  // Those that a fault raises cannot wait.
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP}) sigdelset(&all, fault);
  pthread_sigmask(SIG_BLOCK, &all, &before_);
}

bool SignalsHeld::interrupted() const {
  sigset_t pending;
  sigpending(&pending);
  for (int number = 1; number < NSIG; ++number) {
    if (sigismember(&pending, number) != 1 || sigismember(&before_, number) == 1) continue;
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) != 0) continue;
    const bool handled = action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
    if (handled && (action.sa_flags & SA_RESTART) == 0) return true;
  }
  return false;
}

OnlyWaitIsCancelled::OnlyWaitIsCancelled() {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);
  may_cancel_wait = before_ == PTHREAD_CANCEL_ENABLE;
}

OnlyWaitIsCancelled::~OnlyWaitIsCancelled() {
  may_cancel_wait = false;
  pthread_setcancelstate(before_, nullptr);
}

int wait_readable(SignalsHeld& signals, std::span<pollfd> fds, Nanoseconds timeout_ns) {
  WEFT_ASSERT(fds.size() <= kMostFds);
  PendingSignals* pending = base::PerThread<PendingSignals>::get();
  std::array<pollfd, kMostFds + 1> watched;
  std::ranges::copy(fds, watched.begin());
  // Without a descriptor for it signals wait until something else ends the sleep: still, they are
  // noticed then.
  watched[fds.size()] = {pending != nullptr ? pending->fd(signals.before()) : -1, POLLIN, 0};
  const timespec limit{static_cast<time_t>(timeout_ns / 1'000'000'000),
                       static_cast<long>(timeout_ns % 1'000'000'000)};
  const timespec* const end = timeout_ns == kNever ? nullptr : &limit;
  const int n = poll_as_allowed(watched.data(), fds.size() + 1, end);
  const int error = n < 0 ? errno : 0;
  std::copy_n(watched.begin(), fds.size(), fds.begin());
  if (error != 0) return error == EINTR ? 0 : error;  // a fault's signal, which never ends a read
  if (watched[fds.size()].revents == 0) return 0;
  if (signals.interrupted()) return EINTR;
  signals.let_through();
  return 0;
}

}  // namespace weft::host

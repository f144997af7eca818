// The long jump out of a handler is our purpose here; the fortified longjmp would refuse it when
// the handler ran on an alternate stack.
#undef _FORTIFY_SOURCE

#include "memory/guard.h"

#include <pthread.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/assert.h"
#include "memory/guard_leaves.h"

namespace weft::memory {

constinit thread_local guard::Recovery* guard::current = nullptr;

namespace {

// Written once, before our handlers are in place, except for `spent`.
struct Previous {
  struct sigaction action;
  std::atomic<bool> spent;  ///< SA_RESETHAND: the program wanted its handler to run once
};
Previous previous_segv, previous_bus;

Fault kind_of(int signal, const siginfo_t& info) {
  return signal == SIGSEGV && info.si_code == SEGV_ACCERR ? Fault::kProtection : Fault::kUnmapped;
}

// The default action, seen from inside a handler: put it back and let the instruction fault again,
// so that the core shows the true place. A signal that somebody sent has to be sent again.
void take_default(int signal, const siginfo_t& info) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  if (info.si_code <= 0) raise(signal);
}

void pass_on(int signal, siginfo_t* info, void* context) {
  Previous& previous = signal == SIGSEGV ? previous_segv : previous_bus;
  const struct sigaction& action = previous.action;
  const bool sent = info->si_code <= 0;
  if (action.sa_handler == SIG_IGN && sent) return;
  const bool default_action = action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN;
  const bool once = (action.sa_flags & SA_RESETHAND) != 0;
  if (default_action || (once && previous.spent.exchange(true, std::memory_order_relaxed))) {
    return take_default(signal, *info);
  }
  // The mask that the program asked for; the return from our handler takes it back.
  sigset_t mask = action.sa_mask;
  if ((action.sa_flags & SA_NODEFER) == 0) sigaddset(&mask, signal);
  pthread_sigmask(SIG_BLOCK, &mask, nullptr);
  if ((action.sa_flags & SA_SIGINFO) != 0) {
    action.sa_sigaction(signal, info, context);
  } else {
    action.sa_handler(signal);
  }
}

// Under some runtimes (tsan) handlers run with more signals blocked than we asked for, and the long
// jump does not restore the mask. longjmp and not _longjmp, which tsan does not know. The kernel's
// signal set is 8 bytes, whatever sigset_t is.
[[noreturn]] void resume(guard::Recovery& recovery, const void* context, Fault fault) {
  sigset_t mask;
  sigemptyset(&mask);
  std::memcpy(&mask, &static_cast<const ucontext_t*>(context)->uc_sigmask, _NSIG / 8);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  longjmp(recovery.where, static_cast<int>(fault));
}

void on_fault(int signal, siginfo_t* info, void* context) {
  // Only faults of this thread's own instructions are ours; a sent signal has si_code <= 0.
  if (info->si_code > 0) {
    if (guard::leave_leaf(context, kind_of(signal, *info))) return;
    if (guard::Recovery* recovery = guard::current; recovery != nullptr) {
      resume(*recovery, context, kind_of(signal, *info));
    }
  }
  const int saved = errno;
  pass_on(signal, info, context);
  errno = saved;
}

void install(int signal, Previous& previous) {
  // First learn what was there, then replace it: our handler may run at once.
  int failed = sigaction(signal, nullptr, &previous.action);
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  // SA_NODEFER: a handler of the program's may fault itself. SA_ONSTACK: the program may have
  // overflowed its stack.
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  failed |= sigaction(signal, &action, nullptr);
  WEFT_ASSERT(failed == 0);
}

}  // namespace

void install_guard() {
  static std::once_flag once;
  std::call_once(once, [] {
    install(SIGSEGV, previous_segv);
    install(SIGBUS, previous_bus);
  });
}

}  // namespace weft::memory

// The long jump out of a handler is our purpose here; the fortified longjmp would refuse it when
// the handler ran on an alternate stack.
#undef _FORTIFY_SOURCE

#include "memory/guard.h"

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "memory/guard_leaves.h"
#include "memory/guard_signals.h"

namespace weft::memory {

constinit thread_local guard::Recovery* guard::current = nullptr;

namespace {

Fault kind_of(int signal, const siginfo_t& info) {
  return signal == SIGSEGV && info.si_code == SEGV_ACCERR ? Fault::kProtection : Fault::kUnmapped;
}

// The default action, seen from inside a handler: put it back and let the instruction fault again,
// so that the core shows the true place. A signal that somebody sent has to be sent again.
void take_default(int signal, const siginfo_t& info) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  guard::signal_calls().action(signal, &action, nullptr);
  if (info.si_code <= 0) raise(signal);
}

void pass_on(int signal, siginfo_t* info, void* context) {
  struct sigaction action = guard::program_action(signal);
  // SA_RESETHAND: the program wanted its handler to run once.
  while (action.sa_handler != SIG_DFL && (action.sa_flags & SA_RESETHAND) != 0 &&
         !guard::use_up(signal, action)) {
    action = guard::program_action(signal);
  }
  const bool sent = info->si_code <= 0;
  if (action.sa_handler == SIG_IGN && sent) return;
  if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) {
    return take_default(signal, *info);
  }
  // The mask that the program asked for; the return from our handler takes it back.
  sigset_t mask = action.sa_mask;
  if ((action.sa_flags & SA_NODEFER) == 0) sigaddset(&mask, signal);
  guard::signal_calls().mask(SIG_BLOCK, &mask, nullptr);
  if ((action.sa_flags & SA_SIGINFO) != 0) {
    action.sa_sigaction(signal, info, context);
  } else {
    action.sa_handler(signal);
  }
}

// Under some runtimes (tsan) handlers run with more signals blocked than we asked for, and the long
// jump does not restore the mask. longjmp and not _longjmp, which tsan does not know. The kernel's
// signal set is 8 bytes, whatever sigset_t is.
//
// asan keeps locals in frames of its own, and after a long jump frees those whose functions lie
// below the stack pointer: here, on an alternate stack, it would take frames in use for such.
[[noreturn, gnu::no_sanitize_address]] void resume(guard::Recovery& recovery, const void* context,
                                                   Fault fault) {
  sigset_t mask;
  sigemptyset(&mask);
  std::memcpy(&mask, &static_cast<const ucontext_t*>(context)->uc_sigmask, _NSIG / 8);
  guard::signal_calls().mask(SIG_SETMASK, &mask, nullptr);
  longjmp(recovery.where, static_cast<int>(fault));
}

[[gnu::no_sanitize_address]] void on_fault(int signal, siginfo_t* info, void* context) {
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

}  // namespace

void install_guard() {
  static std::once_flag once;
  std::call_once(once, [] {
    guard::take_signal(SIGBUS, on_fault);
    guard::take_signal(SIGSEGV, on_fault);
  });
}

}  // namespace weft::memory

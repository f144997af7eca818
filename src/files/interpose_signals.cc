// SIGSEGV and SIGBUS through the C library's functions: the guard keeps both
// (memory/guard_signals.h), and the program sees what it has set itself. All other signals pass.
#include <signal.h>

#include <cerrno>

#include "files/interpose_next.h"
#include "memory/guard_signals.h"

namespace guard = weft::memory::guard;

namespace {

using Handler = void (*)(int);

constinit weft::files::Next<int(int, const struct sigaction*, struct sigaction*)> next_sigaction{
    "sigaction"};
constinit weft::files::Next<int(int, const sigset_t*, sigset_t*)> next_pthread_sigmask{
    "pthread_sigmask"};
constinit weft::files::Next<Handler(int, Handler)> next_signal{"signal"};
constinit weft::files::Next<Handler(int, Handler)> next_sysv_signal{"sysv_signal"};
constinit weft::files::Next<Handler(int, Handler)> next_sigset{"sigset"};
constinit weft::files::Next<int(int)> next_sigignore{"sigignore"};

int call_sigaction(int signal, const struct sigaction* action, struct sigaction* old) {
  return next_sigaction(signal, action, old);
}
int call_sigmask(int how, const sigset_t* set, sigset_t* old) {
  return next_pthread_sigmask(how, set, old);
}
// Looks both up, which must not be left to a signal handler.
[[gnu::constructor]] void tell_guard() {
  guard::use_signal_calls({call_sigaction, call_sigmask});
  call_sigaction(SIGSEGV, nullptr, nullptr);
  call_sigmask(SIG_BLOCK, nullptr, nullptr);
}
/// Others' constructors may come before ours.
void be_ready() {
  if (guard::signal_calls().mask != call_sigmask) tell_guard();
}
int exchange_action(int signal, const struct sigaction* action, struct sigaction* old) {
  be_ready();
  return guard::exchange_action(signal, action, old);
}
int exchange_mask(int how, const sigset_t* set, sigset_t* old) {
  be_ready();
  return guard::exchange_mask(how, set, old);
}

int change_mask(int how, const sigset_t* set, sigset_t* old) {
  const int error = exchange_mask(how, set, old);
  if (error == 0) return 0;
  errno = error;
  return -1;
}

/// As the C library's functions without a structure do it.
Handler set_handler(int signal, Handler handler, int flags) {
  struct sigaction action {
  }, old{};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  if ((flags & SA_NODEFER) == 0) sigaddset(&action.sa_mask, signal);
  return exchange_action(signal, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

int change_one(int how, int signal, sigset_t* old) {
  sigset_t set;
  sigemptyset(&set);
  if (sigaddset(&set, signal) != 0) return -1;
  return change_mask(how, &set, old);
}

/// The old functions know the first 32 signals, in an integer.
int change_word(int how, int word) {
  sigset_t set, old;
  sigemptyset(&set);
  for (int signal = 1; signal <= 32; ++signal) {
    if ((static_cast<unsigned>(word) >> (signal - 1) & 1) != 0) sigaddset(&set, signal);
  }
  if (change_mask(how, &set, &old) != 0) return -1;
  unsigned before = 0;
  for (int signal = 1; signal <= 32; ++signal) {
    if (sigismember(&old, signal) == 1) before |= 1u << (signal - 1);
  }
  return static_cast<int>(before);
}

}  // namespace

extern "C" {

int sigaction(int signal, const struct sigaction* action, struct sigaction* old) noexcept {
  if (!guard::is_guarded(signal)) return next_sigaction(signal, action, old);
  return exchange_action(signal, action, old);
}
int __sigaction(int signal, const struct sigaction* action, struct sigaction* old) noexcept {
  return sigaction(signal, action, old);
}

Handler signal(int number, Handler handler) noexcept {
  if (!guard::is_guarded(number)) return next_signal(number, handler);
  return set_handler(number, handler, SA_RESTART);
}
Handler bsd_signal(int number, Handler handler) noexcept { return signal(number, handler); }
Handler ssignal(int number, Handler handler) noexcept { return signal(number, handler); }
Handler sysv_signal(int number, Handler handler) noexcept {
  if (!guard::is_guarded(number)) return next_sysv_signal(number, handler);
  return set_handler(number, handler, static_cast<int>(SA_RESETHAND | SA_NODEFER));
}
Handler __sysv_signal(int number, Handler handler) noexcept { return sysv_signal(number, handler); }

Handler sigset(int number, Handler handler) noexcept {
  if (!guard::is_guarded(number)) return next_sigset(number, handler);
  const bool hold = handler == SIG_HOLD;
  sigset_t mask;
  struct sigaction old {};
  if (change_one(hold ? SIG_BLOCK : SIG_UNBLOCK, number, &mask) != 0) return SIG_ERR;
  if (exchange_action(number, nullptr, &old) != 0) return SIG_ERR;
  if (!hold && set_handler(number, handler, SA_NODEFER) == SIG_ERR) return SIG_ERR;
  return sigismember(&mask, number) == 1 ? SIG_HOLD : old.sa_handler;
}
int sigignore(int number) noexcept {
  if (!guard::is_guarded(number)) return next_sigignore(number);
  return set_handler(number, SIG_IGN, SA_NODEFER) == SIG_ERR ? -1 : 0;
}

int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  return exchange_mask(how, set, old);
}
int sigprocmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  return change_mask(how, set, old);
}
int sigblock(int mask) noexcept { return change_word(SIG_BLOCK, mask); }
int sigsetmask(int mask) noexcept { return change_word(SIG_SETMASK, mask); }
int sighold(int number) noexcept { return change_one(SIG_BLOCK, number, nullptr); }
int sigrelse(int number) noexcept { return change_one(SIG_UNBLOCK, number, nullptr); }

}  // extern "C"

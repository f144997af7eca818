// SIGSEGV and SIGBUS belong to the program and to the guard (guard.h) at the same time. The kernel
// knows one action for each, which is the guard's, and lets both through to every thread that uses
// weft; what the program has asked for is kept here: its action gets the faults that are not the
// guard's, and its mask is what it is told. Where a library of ours stands before the C library's
// functions (files/interpose_signals.cc) the program's calls end here; elsewhere only what it did
// before install_guard() is known, and what a thread had blocked before its first use of weft. Any
// thread, also in a signal handler.
#pragma once

#include <signal.h>

namespace weft::memory::guard {

constexpr bool is_guarded(int signal) { return signal == SIGSEGV || signal == SIGBUS; }

/// The C library's own, for a library that stands before them. To be set before install_guard().
struct SignalCalls {
  int (*action)(int, const struct sigaction*, struct sigaction*);
  int (*mask)(int, const sigset_t*, sigset_t*);
};
void use_signal_calls(const SignalCalls& calls);
const SignalCalls& signal_calls();

/// Puts the guard's handler in the place of the program's action.
void take_signal(int signal, void (*handler)(int, siginfo_t*, void*));
/// For the handler, in the order of a signal's delivery: the program's action now; false: it was
/// for one time, and another thread has just used it.
struct sigaction program_action(int signal);
bool use_up(int signal, const struct sigaction& once);

/// sigaction() as the program sees it, of a signal that is guarded.
int exchange_action(int signal, const struct sigaction* action, struct sigaction* old);
/// pthread_sigmask() as the program sees it: in the kernel the two stay unblocked.
int exchange_mask(int how, const sigset_t* set, sigset_t* old);

/// Lets faults of this thread through to the guard, whatever the thread has blocked; at its first
/// use of weft.
void prepare_thread();

}  // namespace weft::memory::guard

#include "memory/guard_signals.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>

#include "base/assert.h"
#include "base/lock.h"

namespace weft::memory::guard {
namespace {

// The C library's, unless use_signal_calls() knows better.
SignalCalls calls{&::sigaction, &::pthread_sigmask};

/// What of the program's wishes the kernel can grant to a handler that stands before its own.
constexpr int kMirrored = SA_ONSTACK | SA_RESTART;

/// The program's action of one signal. Writers have `lock`; a handler reads without it, also one
/// that has interrupted a writer: the half that is in use is not written to.
struct Wanted {
  struct sigaction halves[2];
  std::atomic<unsigned> turn{0};  // the last bit: which half is in use
  std::atomic<bool> guarded{false};
  void (*handler)(int, siginfo_t*, void*) = nullptr;

  struct sigaction get() const {
    for (;;) {
      const unsigned seen = turn.load(std::memory_order_acquire);  // pairs with set()
      const struct sigaction action = halves[seen & 1];
      std::atomic_thread_fence(std::memory_order_acquire);
      if (turn.load(std::memory_order_relaxed) == seen) return action;
    }
  }
  void set(const struct sigaction& action) {
    const unsigned next = turn.load(std::memory_order_relaxed) + 1;
    halves[next & 1] = action;
    turn.store(next, std::memory_order_release);
  }
};
Wanted wanted_segv, wanted_bus;
Wanted& wanted(int signal) { return signal == SIGSEGV ? wanted_segv : wanted_bus; }

base::Lock lock;
// A child of vfork has its own signals in our memory; it is not the one that is meant.
std::atomic<pid_t> owner{0};

constexpr unsigned kSegv = 1, kBus = 2;
// What this thread believes to have blocked; kReady: its faults come through.
constexpr unsigned kReady = 4;
[[gnu::tls_model("initial-exec")]] constinit thread_local unsigned believed = 0;

bool is_owner() { return owner.load(std::memory_order_relaxed) == getpid(); }

/// Taken with all signals blocked: sigaction() may be called in a handler, by the thread that has
/// the lock.
class Locked {
 public:
  Locked() {
    sigset_t all;
    sigfillset(&all);
    calls.mask(SIG_SETMASK, &all, &before_);
    lock.lock();
  }
  ~Locked() {
    lock.unlock();
    calls.mask(SIG_SETMASK, &before_, nullptr);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  sigset_t before_;
};

bool is_handler(const struct sigaction& action) {
  return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

// SA_NODEFER: a handler of the program's may fault itself. SA_ONSTACK: the program may have
// overflowed its stack, and even without a handler its death shall show where.
int install(int signal, const Wanted& to) {
  const struct sigaction program = to.get();
  struct sigaction action {};
  action.sa_sigaction = to.handler;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  action.sa_flags |= is_handler(program) ? program.sa_flags & kMirrored : SA_ONSTACK;
  return calls.action(signal, &action, nullptr);
}

unsigned bits_of(const sigset_t& set) {
  return (sigismember(&set, SIGSEGV) == 1 ? kSegv : 0) |
         (sigismember(&set, SIGBUS) == 1 ? kBus : 0);
}

}  // namespace

void use_signal_calls(const SignalCalls& own) { calls = own; }
const SignalCalls& signal_calls() { return calls; }

void take_signal(int signal, void (*handler)(int, siginfo_t*, void*)) {
  static std::once_flag once;
  std::call_once(once, [] {
    owner.store(getpid(), std::memory_order_relaxed);
    pthread_atfork([] { lock.lock(); }, [] { lock.unlock(); },
                   [] {
                     lock.unlock();
                     owner.store(getpid(), std::memory_order_relaxed);
                   });
  });
  const Locked locked;
  Wanted& of = wanted(signal);
  // First learn what was there, then replace it: our handler may run at once.
  struct sigaction before {};
  int failed = calls.action(signal, nullptr, &before);
  of.handler = handler;
  of.set(before);
  failed |= install(signal, of);
  WEFT_ASSERT(failed == 0);
  of.guarded.store(true, std::memory_order_release);
}

struct sigaction program_action(int signal) {
  return wanted(signal).get();
}

bool use_up(int signal, const struct sigaction& once) {
  const Locked locked;
  Wanted& of = wanted(signal);
  struct sigaction now = of.get();
  if (now.sa_handler != once.sa_handler) return false;
  now.sa_handler = SIG_DFL;
  of.set(now);
  return true;
}

int exchange_action(int signal, const struct sigaction* action, struct sigaction* old) {
  Wanted& of = wanted(signal);
  if (!of.guarded.load(std::memory_order_acquire) || !is_owner()) {
    return calls.action(signal, action, old);
  }
  struct sigaction asked {
  }, before{};
  if (action != nullptr) asked = *action;  // the program's memory, touched without the lock
  int result = 0;
  {
    const Locked locked;
    before = of.get();
    if (action != nullptr) {
      of.set(asked);
      result = install(signal, of);
    }
  }
  if (result == 0 && old != nullptr) *old = before;
  return result;
}

int exchange_mask(int how, const sigset_t* set, sigset_t* old) {
  if (!wanted_segv.guarded.load(std::memory_order_acquire) || !is_owner()) {
    return calls.mask(how, set, old);
  }
  prepare_thread();
  sigset_t filtered;
  unsigned asked = 0;
  if (set != nullptr) {
    filtered = *set;
    asked = bits_of(filtered);
    if (how != SIG_UNBLOCK) {
      sigdelset(&filtered, SIGSEGV);
      sigdelset(&filtered, SIGBUS);
    }
  }
  const unsigned before = believed;
  const int error = calls.mask(how, set != nullptr ? &filtered : nullptr, old);
  if (error != 0) return error;
  if (old != nullptr) {
    if ((before & kSegv) != 0) sigaddset(old, SIGSEGV);
    if ((before & kBus) != 0) sigaddset(old, SIGBUS);
  }
  if (set != nullptr) {
    believed = how == SIG_BLOCK     ? before | asked
               : how == SIG_UNBLOCK ? before & ~asked
                                    : kReady | asked;
  }
  return 0;
}

void prepare_thread() {
  if ((believed & kReady) != 0) return;
  if (!wanted_segv.guarded.load(std::memory_order_acquire)) return;
  sigset_t both, before;
  sigemptyset(&both);
  sigaddset(&both, SIGSEGV);
  sigaddset(&both, SIGBUS);
  if (calls.mask(SIG_UNBLOCK, &both, &before) != 0) return;
  believed = kReady | bits_of(before);
}

}  // namespace weft::memory::guard

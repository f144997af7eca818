#include "host/readable_wait.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace weft::host {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr Nanoseconds kShortWait_ns = 100'000'000;
constexpr auto kShortWait = 100ms;

std::atomic<int> restarting_handled{0}, ending_handled{0};
void on_restarting(int) { restarting_handled.fetch_add(1, std::memory_order_relaxed); }
void on_ending(int) { ending_handled.fetch_add(1, std::memory_order_relaxed); }

/// A call that does nothing but wait.
int wait_readable(std::span<pollfd> fds, Nanoseconds timeout_ns) {
  SignalsHeld signals;
  return wait_readable(signals, fds, timeout_ns);
}

/// The action of a signal, for as long as it lives.
class Action {
 public:
  Action(int number, void (*handler)(int), int flags) : number_(number) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(number, &action, &before_);
  }
  ~Action() { sigaction(number_, &before_, nullptr); }
  Action(const Action&) = delete;
  Action& operator=(const Action&) = delete;

 private:
  const int number_;
  struct sigaction before_ {};
};

/// SIGUSR1 restarts calls, SIGUSR2 ends them; a descriptor that can be made readable.
struct ReadableWait : testing::Test {
  void SetUp() override { restarting_handled = ending_handled = 0; }
  void TearDown() override { close(fd); }
  void raise() const { EXPECT_EQ(eventfd_write(fd, 1), 0); }

  /// As a caller does who waits for `fd` alone: again, if it ended for no reason.
  int wait_for_it() const {
    for (;;) {
      pollfd entry{fd, POLLIN, 0};
      const int error = wait_readable({&entry, 1}, kNever);
      if (error != 0 || entry.revents != 0) return error;
      ++ended_for_no_reason;
    }
  }
  /// What a thread gets that waits while `disturb` is called with it, again and again until this
  /// says that it is enough; then the descriptor becomes readable.
  int wait_while(const std::function<bool(pthread_t)>& disturb) const {
    std::atomic<int> result{-1};
    std::thread waiter([&] { result = wait_for_it(); });
    for (bool enough = false; !enough && result == -1;) {
      std::this_thread::sleep_for(1ms);
      enough = disturb(waiter.native_handle());
    }
    raise();
    waiter.join();
    return result;
  }

  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  mutable std::atomic<int> ended_for_no_reason{0};
  const Action restarting{SIGUSR1, on_restarting, SA_RESTART};
  const Action ending{SIGUSR2, on_ending, 0};
};

/// How long a call took, which is never less than the time-out if only that ended it.
SteadyClock::duration time_of_short_wait(std::span<pollfd> fds) {
  const auto begun = SteadyClock::now();
  EXPECT_EQ(wait_readable(fds, kShortWait_ns), 0);
  return SteadyClock::now() - begun;
}

TEST_F(ReadableWait, ends_for_what_is_readable_and_tells_which) {
  const int other = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::array<pollfd, 2> both{{{other, POLLIN, 0}, {fd, POLLIN, 0}}};
  raise();
  EXPECT_EQ(wait_readable(both, kNever), 0);
  EXPECT_EQ(both[0].revents, 0);
  EXPECT_EQ(both[1].revents, POLLIN);
  close(other);
}

TEST_F(ReadableWait, ends_when_it_becomes_readable_later) {
  EXPECT_EQ(wait_while([](pthread_t) { return true; }), 0);
}

TEST_F(ReadableWait, ends_when_its_time_is_over) {
  pollfd entry{fd, POLLIN, 0};
  EXPECT_GE(time_of_short_wait({&entry, 1}), kShortWait);
  EXPECT_EQ(entry.revents, 0);
  EXPECT_EQ(wait_readable({&entry, 1}, 0), 0);
  EXPECT_EQ(entry.revents, 0);
  EXPECT_GE(time_of_short_wait({}), kShortWait) << "with nothing to wait for";
}

TEST_F(ReadableWait, goes_on_after_a_signal_that_restarts_calls) {
  EXPECT_EQ(wait_while([](pthread_t waiter) {
              pthread_kill(waiter, SIGUSR1);
              return restarting_handled >= 10;
            }),
            0);
  EXPECT_GE(restarting_handled, 10) << "it is handled while the call waits";
}

TEST_F(ReadableWait, is_ended_by_a_signal_that_ends_calls) {
  EXPECT_EQ(wait_while([](pthread_t waiter) {
              pthread_kill(waiter, SIGUSR2);
              return false;
            }),
            EINTR);
  EXPECT_GE(ending_handled, 1);
}

TEST_F(ReadableWait, is_ended_by_one_of_several_signals) {
  EXPECT_EQ(wait_while([](pthread_t waiter) {
              pthread_kill(waiter, SIGUSR1);
              pthread_kill(waiter, SIGUSR2);
              return false;
            }),
            EINTR);
  EXPECT_GE(restarting_handled, 1);
  EXPECT_GE(ending_handled, 1);
}

TEST_F(ReadableWait, goes_on_after_signals_that_nobody_handles) {
  const Action ignored{SIGPWR, SIG_IGN, 0};
  int sent = 0;
  EXPECT_EQ(wait_while([&](pthread_t waiter) {
              pthread_kill(waiter, SIGCHLD);
              pthread_kill(waiter, SIGWINCH);
              pthread_kill(waiter, SIGPWR);
              return ++sent == 10;
            }),
            0);
}

int descriptor_of_handler = -1;

TEST_F(ReadableWait, sees_what_a_handler_makes_readable) {
  descriptor_of_handler = fd;
  const Action raises{SIGRTMIN + 3, [](int) { eventfd_write(descriptor_of_handler, 1); },
                      SA_RESTART};
  std::atomic<int> result{-1};
  std::thread waiter([&] { result = wait_for_it(); });
  while (result == -1) {
    pthread_kill(waiter.native_handle(), SIGRTMIN + 3);
    std::this_thread::sleep_for(1ms);
  }
  waiter.join();
  EXPECT_EQ(result, 0);
}

TEST_F(ReadableWait, leaves_a_signal_pending_that_its_thread_blocks_and_sleeps_on) {
  std::thread([&] {
    sigset_t both, pending;
    sigemptyset(&both);
    sigaddset(&both, SIGUSR1);
    sigaddset(&both, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &both, nullptr);
    pthread_kill(pthread_self(), SIGUSR1);
    pthread_kill(pthread_self(), SIGUSR2);
    pollfd entry{fd, POLLIN, 0};
    // It slept all the time: a call that ended for the signal would end for it again and again.
    EXPECT_GE(time_of_short_wait({&entry, 1}), kShortWait);
    sigpending(&pending);
    EXPECT_EQ(sigismember(&pending, SIGUSR1), 1);
    EXPECT_EQ(sigismember(&pending, SIGUSR2), 1);
    EXPECT_EQ(restarting_handled + ending_handled, 0);
    // A mask that has changed is seen by the next call.
    pthread_sigmask(SIG_UNBLOCK, &both, nullptr);
    EXPECT_EQ(restarting_handled, 1);
    EXPECT_EQ(ending_handled, 1);
  }).join();
  EXPECT_EQ(wait_while([](pthread_t waiter) {
              pthread_kill(waiter, SIGUSR2);
              return false;
            }),
            EINTR);
}

TEST_F(ReadableWait, follows_the_mask_that_its_thread_has_now) {
  std::atomic<int> blocked_result{-1}, result{-1};
  std::atomic<bool> unblocked{false};
  std::thread waiter([&] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    pollfd entry{fd, POLLIN, 0};
    blocked_result = wait_readable({&entry, 1}, kShortWait_ns);
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    unblocked = true;
    result = wait_for_it();
  });
  while (!unblocked) {
    pthread_kill(waiter.native_handle(), SIGUSR2);
    std::this_thread::sleep_for(1ms);
  }
  while (result == -1) {
    pthread_kill(waiter.native_handle(), SIGUSR2);
    std::this_thread::sleep_for(1ms);
  }
  waiter.join();
  EXPECT_EQ(blocked_result, 0);
  EXPECT_EQ(result, EINTR);
}

TEST_F(ReadableWait, gives_the_mask_back_however_it_ends) {
  const auto mask = [] {
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, nullptr, &now);
    std::vector<int> blocked;
    for (int number = 1; number < NSIG; ++number) {
      if (sigismember(&now, number) == 1) blocked.push_back(number);
    }
    return blocked;
  };
  const auto before = mask();
  pollfd entry{fd, POLLIN, 0};
  EXPECT_EQ(wait_readable({&entry, 1}, 0), 0);
  EXPECT_EQ(mask(), before);
  raise();
  EXPECT_EQ(wait_readable({&entry, 1}, kNever), 0);
  EXPECT_EQ(mask(), before);
}

struct MaskInCleanup {
  const ReadableWait* test = nullptr;
  std::atomic<bool> waits{false};
  sigset_t seen;
};

void look_at_mask(void* into) {
  pthread_sigmask(SIG_BLOCK, nullptr, &static_cast<MaskInCleanup*>(into)->seen);
}

TEST_F(ReadableWait, is_where_a_cancelled_thread_ends_with_its_own_mask) {
  MaskInCleanup cleanup;
  cleanup.test = this;
  sigfillset(&cleanup.seen);
  pthread_t waiter;
  ASSERT_EQ(pthread_create(
                &waiter, nullptr,
                [](void* argument) -> void* {
                  auto* const mine = static_cast<MaskInCleanup*>(argument);
                  sigset_t own;
                  sigemptyset(&own);
                  sigaddset(&own, SIGUSR1);
                  pthread_sigmask(SIG_SETMASK, &own, nullptr);
                  pthread_cleanup_push(look_at_mask, argument);
                  mine->waits = true;
                  mine->test->wait_for_it();
                  pthread_cleanup_pop(0);
                  return nullptr;
                },
                &cleanup),
            0);
  while (!cleanup.waits) std::this_thread::yield();
  std::this_thread::sleep_for(20ms);
  ASSERT_EQ(pthread_cancel(waiter), 0);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(waiter, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  for (int number = 1; number < 32; ++number) {
    EXPECT_EQ(sigismember(&cleanup.seen, number), number == SIGUSR1 ? 1 : 0) << number;
  }
}

/// The numbers under which this process has signalfds.
std::set<int> open_signalfds() {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry, error).string().find("signalfd") !=
        std::string::npos) {
      found.insert(std::stoi(entry.path().filename()));
    }
  }
  return found;
}

TEST_F(ReadableWait, goes_on_when_its_program_has_closed_all_descriptors) {
  std::atomic<int> result{-1};
  std::atomic<bool> waits{false};
  std::thread waiter([&] {
    pollfd entry{fd, POLLIN, 0};
    const auto before = open_signalfds();
    EXPECT_EQ(wait_readable({&entry, 1}, 0), 0);
    for (const int number : open_signalfds()) {
      if (before.contains(number)) continue;
      // And has something else under the number, which is readable.
      const int programs = eventfd(1, EFD_CLOEXEC);
      EXPECT_EQ(dup2(programs, number), number);
      close(programs);
      EXPECT_GE(time_of_short_wait({&entry, 1}), kShortWait);
      eventfd_t count = 0;
      EXPECT_EQ(eventfd_read(number, &count), 0) << "it is the program's";
      close(number);
    }
    waits = true;
    result = wait_for_it();
  });
  while (result == -1) {
    if (waits) pthread_kill(waiter.native_handle(), SIGUSR2);
    std::this_thread::sleep_for(1ms);
  }
  waiter.join();
  EXPECT_EQ(result, EINTR);
}

TEST_F(ReadableWait, leaves_no_descriptor_behind_when_its_thread_ends) {
  const auto before = open_signalfds();
  for (int i = 0; i < 3; ++i) {
    std::thread([&] {
      pollfd entry{fd, POLLIN, 0};
      EXPECT_EQ(wait_readable({&entry, 1}, 0), 0);
    }).join();
  }
  EXPECT_EQ(open_signalfds(), before);
}

}  // namespace
}  // namespace weft::host

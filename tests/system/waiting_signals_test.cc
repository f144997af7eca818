// Threads that sleep in ibv_get_cq_event, on the sockets of links and ports themselves, and are
// interrupted or cancelled there: as in a read, and those who wait after them are woken as before.
#include <pthread.h>
#include <sys/socket.h>

#include <csignal>

#include "support/next_function.h"
#include "system/waiting_kit.h"

namespace {
thread_local bool signal_is_due = false;
}

void weft::test::raise_at_next_look() { signal_is_due = true; }

// Only where weft holds signals back: one that is handled before the wait begins ends no read
// either.
void weft::test::raise_what_is_due() {
  if (!signal_is_due) return;
  sigset_t held;
  pthread_sigmask(SIG_SETMASK, nullptr, &held);
  if (sigismember(&held, SIGUSR1) != 1) return;
  signal_is_due = false;
  raise(SIGUSR1);
}

/// In place of the C library's: weft looks at its sockets here.
extern "C" ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static auto* const real = weft::test::next<ssize_t(int, msghdr*, int)>("recvmsg");
  weft::test::raise_what_is_due();
  return real(fd, message, flags);
}

namespace weft::test {
namespace {

constexpr std::uint64_t kGames = 5;

constexpr std::uint64_t kFewRounds = 200 / kWaitingSlowness;

void block_signal(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  pthread_sigmask(how, &set, nullptr);
}

/// A thread that plays one game, gets signals where it waits, and tells how often that ended the
/// call.
struct Interrupted {
  Interrupted(WaitingProgram& program, const Wire& peer)
      : thread([&] {
          program.play(peer, Turn::kFirst, kFewRounds, [&] {
            block_signal(SIG_UNBLOCK);
            while (take_event(program.channel.shown) == nullptr) {
              WEFT_REQUIRE(errno == EINTR);
              ++times;
            }
            block_signal(SIG_BLOCK);
          });
          over = true;
        }) {}
  std::atomic<bool> over{false};
  std::atomic<int> times{0};
  std::thread thread;
};

std::atomic<int> signals_handled{0};

int interruptions(WaitingProgram& program, const Wire& peer, int flags) {
  struct sigaction action {};
  action.sa_handler = [](int) { ++signals_handled; };
  action.sa_flags = flags;
  WEFT_REQUIRE(sigaction(SIGUSR1, &action, nullptr) == 0);
  signals_handled = 0;
  block_signal(SIG_BLOCK);  // also for the thread
  Interrupted player(program, peer);
  while (!player.over) {
    pthread_kill(player.thread.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(200us);
  }
  player.thread.join();
  WEFT_REQUIRE(signals_handled > 0);
  return player.times;
}

/// A thread that waits for what never comes, until it is cancelled.
void cancel_one_who_waits(WaitingProgram& program) {
  pthread_t waiter;
  const auto wait = [](void* channel) -> void* {
    take_event(static_cast<ibv_comp_channel*>(channel));
    return nullptr;
  };
  WEFT_REQUIRE(pthread_create(&waiter, nullptr, wait, program.channel.shown) == 0);
  std::this_thread::sleep_for(10ms);
  WEFT_REQUIRE(pthread_cancel(waiter) == 0);
  void* result = nullptr;
  WEFT_REQUIRE(pthread_join(waiter, &result) == 0);
  WEFT_REQUIRE(result == PTHREAD_CANCELED || result == nullptr);  // an event may have been left
}

class WaitingSignals : public testing::TestWithParam<WaitPath> {};

TEST_P(WaitingSignals, end_the_call_or_restart_it_and_no_message_is_lost) {
  between_two_processes(
      GetParam(),
      [](const Wire& peer) {
        WaitingProgram program;
        program.connection.connect(peer);
        WEFT_REQUIRE(interruptions(program, peer, SA_RESTART) == 0);
        WEFT_REQUIRE(interruptions(program, peer, 0) > 0);
        peer.sync();
      },
      [](const Wire& peer) {
        WaitingProgram program;
        program.connection.connect(peer);
        for (int i = 0; i < 2; ++i) {
          // It answers late, so that the other is asleep when signals come.
          program.play(peer, Turn::kSecond, kFewRounds, [&] {
            std::this_thread::sleep_for(500us);
            while (take_event(program.channel.shown) == nullptr) {
            }
          });
        }
        peer.sync();
      });
}

TEST(WaitingSignalsFramed, one_that_comes_while_a_thread_looks_before_it_sleeps_ends_the_call) {
  constexpr int kMostGames = 100;
  between_two_processes(
      WaitPath::kFramed,
      [](const Wire& peer) {
        WaitingProgram program;
        program.connection.connect(peer);
        struct sigaction action {};
        action.sa_handler = [](int) { ++signals_handled; };
        WEFT_REQUIRE(sigaction(SIGUSR1, &action, nullptr) == 0);
        bool over = false;
        for (int games = 1; !over; ++games) {
          program.play(peer, Turn::kFirst, kFewRounds, Way::kCall);
          // It may have been armed after the last message; nothing comes from now on.
          program.queue.arm();
          signals_handled = 0;
          const std::uint64_t sleeps = sleeps_of_this_thread();
          raise_at_next_look();
          while (take_event(program.channel.shown) != nullptr) {
          }
          WEFT_REQUIRE(errno == EINTR && signals_handled == 1);
          over = sleeps_of_this_thread() == sleeps || games == kMostGames;
          peer.put(over);
        }
      },
      [](const Wire& peer) {
        WaitingProgram program;
        program.connection.connect(peer);
        do {
          program.play(peer, Turn::kSecond, kFewRounds, Way::kCall);
        } while (!peer.get<bool>());
      });
}

/// A thread that waits for a message while its peer writes to its memory: it does the work of the
/// writes, and none of them is an event.
struct PassiveTarget {
  explicit PassiveTarget(ibv_comp_channel* channel)
      : thread([this, channel] {
          block_signal(SIG_UNBLOCK);
          do {
            ++calls;
            WEFT_REQUIRE(take_event(channel) == nullptr && errno == EINTR);
            moved();
          } while (calls < kCalls);
        }) {}

  static constexpr int kCalls = 100;
  std::atomic<int> calls{0};
  std::thread thread;
};

TEST_P(WaitingSignals, one_that_comes_while_a_thread_serves_its_peer_ends_the_call) {
  between_two_processes(
      GetParam(),
      [](const Wire& peer) {
        WaitingProgram program;
        program.connection.connect(peer);
        struct sigaction action {};
        action.sa_handler = [](int) {};
        WEFT_REQUIRE(sigaction(SIGUSR1, &action, nullptr) == 0);
        block_signal(SIG_BLOCK);  // also for the thread
        program.queue.arm();
        PassiveTarget target(program.channel.shown);
        for (int call = 1; call <= PassiveTarget::kCalls; ++call) {
          while (target.calls < call) std::this_thread::yield();
          std::this_thread::sleep_for(1ms + std::chrono::microseconds(call));
          // Once: nothing else would end the call.
          WEFT_REQUIRE(pthread_kill(target.thread.native_handle(), SIGUSR1) == 0);
        }
        target.thread.join();
        peer.put(true);
        peer.get<bool>();  // the memory is there until nobody writes to it any more
      },
      [](const Wire& peer) {
        constexpr int kUnderWay = 8;
        WaitingProgram program;
        program.connection.connect(peer);
        std::atomic<bool> over{false};
        std::thread news([&] { over = peer.get<bool>(); });
        for (int i = 0; i < kUnderWay; ++i) program.connection.write(0);
        for (; !over; moved()) {
          WEFT_REQUIRE(program.queue.spin().status == IBV_WC_SUCCESS);
          program.connection.write(0);
        }
        news.join();
        for (int i = 0; i < kUnderWay; ++i) {
          WEFT_REQUIRE(program.queue.spin().status == IBV_WC_SUCCESS);
        }
        peer.put(true);
      });
}

TEST_P(WaitingSignals, a_cancelled_thread_leaves_the_channel_to_others) {
  between_two_processes(
      GetParam(),
      [](const Wire& peer) {
        WaitingProgram program;
        program.connection.connect(peer);
        for (std::uint64_t i = 0; i < kGames; ++i) {
          cancel_one_who_waits(program);
          program.play(peer, Turn::kFirst, kFewRounds, Way::kCall);
          cancel_one_who_waits(program);
          program.play(peer, Turn::kFirst, kFewRounds, Way::kEpoll);
          set_blocking(program.channel.fd(), true);
        }
        peer.sync();
      },
      [](const Wire& peer) {
        WaitingProgram program;
        program.connection.connect(peer);
        for (std::uint64_t i = 0; i < 2 * kGames; ++i) {
          program.play(peer, Turn::kSecond, kFewRounds, Way::kCall);
        }
        peer.sync();
      });
}

/// One who serves a game until it is over or is cancelled, which it lets happen only while it waits
/// for an event: then it has taken none.
struct Cancelled {
  WaitingProgram* program;
  PingPong* game;
  bool polls_first;
  std::atomic<std::uint64_t> served{0};
  std::atomic<bool> over{false};

  static void* serve(void* argument) {
    auto& self = *static_cast<Cancelled*>(argument);
    const WaitingProgram& program = *self.program;
    int before = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    while (!self.game->over()) {
      pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
      if (self.polls_first) WEFT_REQUIRE(is_readable(program.channel.fd(), -1));
      ibv_cq* cq = nullptr;
      void* owner = nullptr;
      const int error = ibv_get_cq_event(program.channel.shown, &cq, &owner);
      pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
      WEFT_REQUIRE(error == 0);
      ibv_ack_cq_events(cq, 1);
      program.queue.arm();
      for (ibv_wc wc; program.queue.poll(&wc);) self.game->on_completion(wc);
      ++self.served;
    }
    self.over = true;
    return nullptr;
  }
};

TEST_P(WaitingSignals, threads_cancelled_under_traffic_take_no_event_with_them) {
  constexpr std::uint64_t kRounds = 4000 / kWaitingSlowness;
  between_two_processes(
      GetParam(),
      [](const Wire& peer) {
        WaitingProgram program;
        program.connection.connect(peer);
        PingPong game(program.connection, Turn::kFirst, kRounds);
        program.queue.arm();
        peer.sync();
        game.begin();
        for (unsigned turn = 0; !game.over(); ++turn) {
          Cancelled work{&program, &game, turn % 4 == 3};
          pthread_t thread;
          WEFT_REQUIRE(pthread_create(&thread, nullptr, Cancelled::serve, &work) == 0);
          // At another moment each time of what it does for a message.
          while (work.served < 10 && !work.over) {
            std::this_thread::sleep_for(std::chrono::microseconds(turn % 97));
          }
          pthread_cancel(thread);
          WEFT_REQUIRE(pthread_join(thread, nullptr) == 0);
        }
        peer.sync();
        peer.sync();
      },
      [](const Wire& peer) {
        WaitingProgram program;
        program.connection.connect(peer);
        program.play(peer, Turn::kSecond, kRounds, Way::kCall);
        peer.sync();
      });
}

INSTANTIATE_TEST_SUITE_P(Paths, WaitingSignals,
                         testing::Values(WaitPath::kNeighbour, WaitPath::kFramed),
                         [](const auto& given) { return std::string(name_of(given.param)); });

}  // namespace
}  // namespace weft::test

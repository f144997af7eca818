// Programs that sleep on completion channels, through libibverbs' ABI alone: two processes of one
// host, or two that send frames over UDP, each of which waits in one of the ways in which programs
// do. Both run in partners (support/partner.h) that talk to each other over a wire of their own;
// one that hangs is ended by its alarm and says so.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "host/fd_flags.h"
#include "support/partner.h"
#include "support/udp_kit.h"
#include "system/waiting_objects.h"

namespace weft::test {

using namespace std::chrono_literals;

#if defined(__SANITIZE_ADDRESS__)
inline constexpr unsigned kWaitingSlowness = 4;
#else
inline constexpr unsigned kWaitingSlowness = 1;
#endif

// ---- two processes --------------------------------------------------------------------------

enum class WaitPath { kNeighbour, kFramed };
inline const char* name_of(WaitPath path) {
  return path == WaitPath::kNeighbour ? "neighbour" : "framed";
}

/// So long nothing may move before a process is taken to hang.
inline constexpr unsigned kPatience_s = 60;
inline std::atomic<std::uint64_t> moves{0};

/// Something has happened: the process has its patience again.
inline void moved() {
  moves.fetch_add(1, std::memory_order_relaxed);
  alarm(kPatience_s);
}

inline void end_hanging_process(int) {
  std::array<char, 64> text{};
  const int n = std::snprintf(text.data(), text.size(), "partner %d hangs after %lu moves\n",
                              getpid(), static_cast<unsigned long>(moves.load()));
  static_cast<void>(!write(STDERR_FILENO, text.data(), static_cast<std::size_t>(n)));
  _exit(5);
}

using WaitingWork = std::function<void(const Wire& peer)>;

/// In a partner: device `which` of this test, and an end if it hangs.
inline void prepare(WaitPath path, int which) {
  std::signal(SIGALRM, end_hanging_process);
  moved();
  setenv("WEFT_PATH", path == WaitPath::kFramed ? "framed" : "auto", 1);
  setenv("WEFT_DEVICES", ("weft0=" + loopback(which)).c_str(), 1);
}

/// Two processes with a wire between them.
class TwoProcesses {
 public:
  TwoProcesses(WaitPath path, const WaitingWork& first, const WaitingWork& second, int which = 1)
      : ends_(make_ends()),
        first_([&](const Wire&) { run(path, first, 0, which); }),
        second_([&](const Wire&) { run(path, second, 1, which + 1); }) {
    close(ends_[0]);
    close(ends_[1]);
  }
  /// Waits for both; each must have come to its end.
  void finish() {
    // Who waits for one that has failed is not what went wrong.
    int first = -1, second = -1;
    for (int waited = 0; waited < kLongest_ms && (first == -1 || second == -1); ++waited) {
      if (first == -1) first = first_.join(0);
      if (second == -1) second = second_.join(0);
      if (first > 0 || second > 0) waited = std::max(waited, kLongest_ms - kGrace_ms);
    }
    EXPECT_EQ(first, 0);
    EXPECT_EQ(second, 0);
  }
  const Partner& first() const { return first_; }
  const Partner& second() const { return second_; }

 private:
  static constexpr int kLongest_ms = 240'000;
  static constexpr int kGrace_ms = 2000;

  static std::array<int, 2> make_ends() {
    std::array<int, 2> ends{};
    require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0, "socketpair");
    return ends;
  }
  void run(WaitPath path, const WaitingWork& work, std::size_t mine, int which) const {
    prepare(path, which);
    close(ends_[1 - mine]);
    const Wire peer(ends_[mine]);
    work(peer);
  }

  std::array<int, 2> ends_;
  Partner first_, second_;
};

inline void between_two_processes(WaitPath path, const WaitingWork& first,
                                  const WaitingWork& second) {
  TwoProcesses(path, first, second).finish();
}

// ---- the ways of waiting --------------------------------------------------------------------

enum class Way {
  kCall,          ///< ibv_get_cq_event, on a descriptor that blocks
  kBusyCall,      ///< the same, which looks for a while before it sleeps
  kPoll,          ///< poll, on one that does not block
  kSelect,        ///< select, the same
  kEpoll,         ///< epoll, the same
  kEdge,          ///< epoll, told once of each change
  kPollThenCall,  ///< poll, on a descriptor that blocks: a readable one has an event
};
inline constexpr std::array kAllWays{Way::kCall,  Way::kBusyCall, Way::kPoll,        Way::kSelect,
                                     Way::kEpoll, Way::kEdge,     Way::kPollThenCall};

inline std::string name_of(Way way) {
  constexpr std::array kNames{"call",  "busy_call", "poll",          "select",
                              "epoll", "edge",      "poll_then_call"};
  return kNames[static_cast<std::size_t>(way)];
}
inline bool waits_in_call(Way way) { return way == Way::kCall || way == Way::kBusyCall; }
inline bool blocks(Way way) { return waits_in_call(way) || way == Way::kPollThenCall; }

/// What a suite runs with.
using WaitSetting = std::tuple<WaitPath, Way>;
inline std::string name_of_setting(const testing::TestParamInfo<WaitSetting>& given) {
  return std::string(name_of(std::get<WaitPath>(given.param))) + "_" +
         name_of(std::get<Way>(given.param));
}
inline void set_blocking(int fd, bool blocking) {
  const int flags = fcntl(fd, F_GETFL);
  WEFT_REQUIRE(flags >= 0);
  WEFT_REQUIRE(fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK) == 0);
  // As `weft run` does, whose fcntl this program does not have.
  if (blocking) host::tell_descriptor_blocks();
}

inline bool is_readable(int fd, int wait_ms = 0) {
  pollfd entry{fd, POLLIN, 0};
  const int n = ::poll(&entry, 1, wait_ms);
  return n == 1;
}

/// How often this thread has gone to sleep in ppoll(), which waiting_ways_test.cc counts: weft's
/// calls that wait sleep there, and programs here do not.
std::uint64_t sleeps_of_this_thread();

/// The next time that this thread looks at a socket, or goes to sleep in ppoll(), with signals held
/// back, it gets SIGUSR1 there (waiting_signals_test.cc).
void raise_at_next_look();
/// For ppoll() and recvmsg().
void raise_what_is_due();

/// An event that has been taken and acknowledged; null: there is none (errno).
inline ibv_cq* take_event(ibv_comp_channel* channel) {
  ibv_cq* cq = nullptr;
  void* owner = nullptr;
  if (ibv_get_cq_event(channel, &cq, &owner) != 0) return nullptr;
  ibv_ack_cq_events(cq, 1);
  return cq;
}

/// A program's way of waiting for the events of one channel. One for each thread.
class Waiter {
 public:
  Waiter(ibv_comp_channel* channel, Way way, bool alone = true)
      : channel_(channel), way_(way), alone_(alone) {
    set_blocking(channel->fd, blocks(way));
    if (way != Way::kEpoll && way != Way::kEdge) return;
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    event.events = EPOLLIN | (way == Way::kEdge ? EPOLLET : 0U);
    WEFT_REQUIRE(epoll_ctl(epoll_, EPOLL_CTL_ADD, channel->fd, &event) == 0);
  }
  ~Waiter() {
    if (epoll_ >= 0) close(epoll_);
  }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  /// Sleeps until there is an event; the queue that it is about.
  ibv_cq* next() {
    // Who is told of changes only asks first.
    if (way_ == Way::kEdge) {
      if (ibv_cq* cq = take()) return cq;
    }
    for (;;) {
      sleep();
      if (ibv_cq* cq = take()) return cq;
    }
  }

 private:
  ibv_cq* take() {
    const std::uint64_t sleeps = sleeps_of_this_thread();
    ibv_cq* const cq = take_event(channel_);
    if (cq == nullptr) WEFT_REQUIRE(errno == EAGAIN && !blocks(way_));
    if (alone_ && !waits_in_call(way_)) WEFT_REQUIRE(sleeps_of_this_thread() == sleeps);
    return cq;
  }
  void sleep() const {
    epoll_event event{};
    fd_set set;
    switch (way_) {
      case Way::kCall:
      case Way::kBusyCall:
        return;  // in take()
      case Way::kPoll:
      case Way::kPollThenCall:
        WEFT_REQUIRE(is_readable(channel_->fd, -1));
        return;
      case Way::kSelect:
        FD_ZERO(&set);
        FD_SET(channel_->fd, &set);
        WEFT_REQUIRE(select(channel_->fd + 1, &set, nullptr, nullptr, nullptr) == 1);
        return;
      case Way::kEpoll:
      case Way::kEdge:
        WEFT_REQUIRE(epoll_wait(epoll_, &event, 1, -1) == 1);
        return;
    }
  }

  ibv_comp_channel* const channel_;
  const Way way_;
  const bool alone_;  // nobody else takes events out of the channel
  int epoll_ = -1;
};

// ---- what they do ---------------------------------------------------------------------------

enum class Turn { kFirst, kSecond };

/// One end of a connection on which a message goes to and fro.
class PingPong {
 public:
  PingPong(Connection& connection, Turn turn, std::uint64_t rounds)
      : connection_(connection), turn_(turn), rounds_(rounds) {}

  void begin() {
    if (turn_ == Turn::kFirst) send(0);
  }
  /// Looks at a completion, and answers.
  void on_completion(const ibv_wc& wc) {
    WEFT_REQUIRE(wc.status == IBV_WC_SUCCESS);
    if (!Connection::is_receive(wc)) {
      --under_way_;
      return;
    }
    WEFT_REQUIRE(connection_.take(wc) == received_);
    ++received_;
    if (turn_ == Turn::kSecond || received_ < rounds_) {
      send(turn_ == Turn::kSecond ? received_ - 1 : received_);
    }
    moved();
  }
  bool over() const { return received_ == rounds_; }
  /// No completion is to come any more.
  bool quiet() const { return over() && under_way_ == 0; }

 private:
  void send(std::uint64_t value) {
    connection_.send(value);
    ++under_way_;
  }

  Connection& connection_;
  const Turn turn_;
  const std::uint64_t rounds_;
  std::uint64_t received_ = 0, under_way_ = 0;
};

/// One of each.
struct WaitingProgram {
  Opened opened;
  Channel channel{opened};
  Queue queue{opened, channel};
  Connection connection{opened, queue};

  /// Plays one game, the peer another; `wait` sleeps until it has taken an event. The queue is
  /// empty afterwards; it may be armed, or an event may be left.
  void play(const Wire& peer, Turn turn, std::uint64_t rounds, const std::function<void()>& wait) {
    PingPong game(connection, turn, rounds);
    queue.arm();
    peer.sync();
    game.begin();
    while (!game.over()) {
      wait();
      queue.arm();
      for (ibv_wc wc; queue.poll(&wc);) game.on_completion(wc);
    }
    while (!game.quiet()) game.on_completion(queue.spin());
    peer.sync();
  }
  void play(const Wire& peer, Turn turn, std::uint64_t rounds, Way way) {
    Waiter waiter(channel.shown, way);
    play(peer, turn, rounds, [&] { waiter.next(); });
  }
  void play_spinning(const Wire& peer, Turn turn, std::uint64_t rounds) {
    PingPong game(connection, turn, rounds);
    peer.sync();
    game.begin();
    while (!game.quiet()) game.on_completion(queue.spin());
    peer.sync();
  }
};

/// Tests for each path and each of some ways. The other side of most is a program without fault,
/// which sleeps in its calls.
class WaitingSuite : public testing::TestWithParam<WaitSetting> {
 protected:
  static WaitPath path() { return std::get<WaitPath>(GetParam()); }
  static Way way() { return std::get<Way>(GetParam()); }

  /// The same work on both sides, but for who begins.
  static void both(const std::function<void(const Wire&, Turn)>& work) {
    const auto play = [&](const Wire& peer, Turn turn) {
      setenv("WEFT_BUSY_WAIT", way() == Way::kBusyCall ? "on" : "off", 1);
      work(peer, turn);
    };
    between_two_processes(
        path(), [&](const Wire& peer) { play(peer, Turn::kFirst); },
        [&](const Wire& peer) { play(peer, Turn::kSecond); });
  }
  static void against_sleeper(std::uint64_t rounds, const WaitingWork& work) {
    between_two_processes(path(), work, [=](const Wire& peer) {
      WaitingProgram program;
      program.connection.connect(peer);
      program.play(peer, Turn::kSecond, rounds, Way::kCall);
      peer.sync();
    });
  }
};

/// An event or none, from a call that must not sleep.
inline ibv_cq* take_without_sleep(ibv_comp_channel* channel) {
  const std::uint64_t before = sleeps_of_this_thread();
  ibv_cq* const cq = take_event(channel);
  const int error = errno;
  WEFT_REQUIRE(sleeps_of_this_thread() == before);
  errno = error;
  return cq;
}

/// Counts waits that took as long as the helper's own sleep: one now and then may be the machine's,
/// many would be wake-ups that were lost and made up for by somebody who looked in passing.
class LateWaits {
 public:
  ibv_cq* next(Waiter& waiter) {
    const auto begun = std::chrono::steady_clock::now();
    ibv_cq* const cq = waiter.next();
    if (std::chrono::steady_clock::now() - begun > 700ms) ++late_;
    WEFT_REQUIRE(late_ < kMost);
    return cq;
  }

 private:
  static constexpr int kMost = 20;
  int late_ = 0;
};

}  // namespace weft::test

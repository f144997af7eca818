// Two processes that sleep for each message, in every way in which programs wait for completion
// events, between processes of one host and over UDP: nobody sleeps through a message.
#include <algorithm>
#include <memory>
#include <mutex>

#include "support/next_function.h"
#include "system/waiting_kit.h"

namespace {
thread_local std::uint64_t sleeps = 0;
}  // namespace

std::uint64_t weft::test::sleeps_of_this_thread() { return sleeps; }

/// In place of the C library's: weft's calls sleep here.
extern "C" int ppoll(pollfd* fds, nfds_t count, const timespec* limit, const sigset_t* mask) {
  static auto* const real =
      weft::test::next<int(pollfd*, nfds_t, const timespec*, const sigset_t*)>("ppoll");
  ++sleeps;
  weft::test::raise_what_is_due();
  return real(fds, count, limit, mask);
}

namespace weft::test {
namespace {

constexpr std::uint64_t kRounds = 3000 / kWaitingSlowness;

class WaitingWays : public WaitingSuite {};

TEST_P(WaitingWays, messages_that_both_sides_sleep_for_all_arrive) {
  both([](const Wire& peer, Turn turn) {
    const Opened opened;
    const Channel channel(opened);
    const Queue queue(opened, channel);
    Connection connection(opened, queue);
    Waiter waiter(channel.shown, way());
    LateWaits waits;
    connection.connect(peer);
    PingPong game(connection, turn, kRounds);
    queue.arm();
    peer.sync();
    game.begin();
    while (!game.over()) {
      WEFT_REQUIRE(waits.next(waiter) == queue.shown);
      queue.arm();
      for (ibv_wc wc; queue.poll(&wc);) game.on_completion(wc);
    }
    if (way() == Way::kCall) WEFT_REQUIRE(sleeps_of_this_thread() > 0);  // they are counted
    peer.sync();
  });
}

TEST_P(WaitingWays, messages_arrive_where_sends_and_receives_have_queues_of_one_channel) {
  struct Talk {
    Talk(const Opened& opened, const Channel& channel)
        : sends(opened, channel), receives(opened, channel), connection(opened, sends, receives) {}
    Queue sends, receives;
    Connection connection;
  };
  both([](const Wire& peer, Turn turn) {
    constexpr std::uint64_t kEach = kRounds / 4;
    const Opened opened;
    const Channel channel(opened);
    Talk one(opened, channel), other(opened, channel);
    Waiter waiter(channel.shown, way());
    LateWaits waits;
    one.connection.connect(peer);
    other.connection.connect(peer);
    // Both ways at once.
    PingPong game(one.connection, turn, kEach);
    PingPong back(other.connection, turn == Turn::kFirst ? Turn::kSecond : Turn::kFirst, kEach);
    for (const Talk* talk : {&one, &other}) talk->sends.arm(), talk->receives.arm();
    peer.sync();
    game.begin();
    back.begin();
    while (!game.over() || !back.over()) {
      ibv_cq* const told = waits.next(waiter);
      const auto* const queue = static_cast<const Queue*>(told->cq_context);
      WEFT_REQUIRE(queue->shown == told);
      queue->arm();
      for (ibv_wc wc; queue->poll(&wc);) {
        (wc.qp_num == one.connection.number() ? game : back).on_completion(wc);
      }
    }
    peer.sync();
  });
}

TEST_P(WaitingWays, threads_with_a_channel_each_sleep_on_one_device) {
  both([](const Wire& peer, Turn turn) {
    constexpr std::size_t kThreads = 4;
    constexpr std::uint64_t kEach = kRounds / 10;
    const Opened opened;
    struct Mine {
      explicit Mine(const Opened& opened)
          : channel(opened), queue(opened, channel), connection(opened, queue) {}
      Channel channel;
      Queue queue;
      Connection connection;
    };
    std::vector<std::unique_ptr<Mine>> all;
    for (std::size_t i = 0; i < kThreads; ++i) {
      all.push_back(std::make_unique<Mine>(opened));
      all.back()->connection.connect(peer);
      all.back()->queue.arm();
    }
    peer.sync();
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        Mine& mine = *all[i];
        // Half of them in another way.
        Waiter waiter(mine.channel.shown, i % 2 == 0 ? way() : kAllWays[i]);
        LateWaits waits;
        PingPong game(mine.connection, turn, kEach);
        game.begin();
        while (!game.over()) {
          waits.next(waiter);
          mine.queue.arm();
          for (ibv_wc wc; mine.queue.poll(&wc);) game.on_completion(wc);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    peer.sync();
  });
}

TEST_P(WaitingWays, threads_sleep_on_one_channel_together) {
  both([](const Wire& peer, Turn turn) {
    constexpr int kThreads = 3;
    constexpr std::size_t kQueues = 4;
    constexpr std::uint64_t kEach = kRounds / 10;
    struct Mine {
      Mine(const Opened& opened, const Channel& channel, Turn turn)
          : queue(opened, channel), connection(opened, queue), game(connection, turn, kEach) {}
      std::mutex lock;  // two threads may have had events of the queue
      Queue queue;
      Connection connection;
      PingPong game;
    };
    auto& opened = *new Opened;  // its threads wait until the process ends
    auto& channel = *new Channel(opened);
    auto& all = *new std::vector<std::unique_ptr<Mine>>;
    auto& over = *new std::atomic<std::size_t>{0};
    for (std::size_t i = 0; i < kQueues; ++i) {
      all.push_back(std::make_unique<Mine>(opened, channel, turn));
      all.back()->connection.connect(peer);
      all.back()->queue.arm();
    }
    peer.sync();
    for (int i = 0; i < kThreads; ++i) {
      std::thread([&] {
        Waiter waiter(channel.shown, way(), false);
        for (;;) {
          ibv_cq* const told = waiter.next();
          for (const auto& mine : all) {
            if (mine->queue.shown != told) continue;
            const std::lock_guard guard(mine->lock);
            const bool was_over = mine->game.over();
            mine->queue.arm();
            for (ibv_wc wc; mine->queue.poll(&wc);) mine->game.on_completion(wc);
            if (!was_over && mine->game.over()) ++over;
          }
        }
      }).detach();
    }
    for (const auto& mine : all) {
      const std::lock_guard guard(mine->lock);
      mine->game.begin();
    }
    while (over != kQueues) std::this_thread::sleep_for(1ms);
    peer.sync();
  });
}

/// For a thread that waits in its own way, and one that looks whether it was woken.
struct Listener {
  Listener(ibv_comp_channel* channel, Way way)
      : thread([this, channel, way] {
          Waiter waiter(channel, way);
          for (;;) {
            waiter.next();
            ++events;
          }
        }) {}
  void await(int count) const {
    while (events < count) std::this_thread::sleep_for(100us);
    moved();
  }
  std::atomic<int> events{0};
  std::thread thread;
};

TEST_P(WaitingWays, only_solicited_messages_and_failures_wake_one_who_asked_for_these) {
  constexpr std::uint64_t kTimes = 20;
  constexpr std::uint64_t kSilent = 3;
  between_two_processes(
      path(),
      [](const Wire& peer) {
        const Opened opened;
        const Channel channel(opened);
        const Queue queue(opened, channel);
        Connection connection(opened, queue);
        connection.connect(peer);
        auto& listener = *new Listener(channel.shown, way());  // waits until the process ends
        std::uint64_t next = 0;
        int events = 0;
        for (std::uint64_t i = 0; i < kTimes; ++i) {
          queue.arm(true);
          peer.put('u');
          peer.get<char>();  // unsolicited ones are here, and acknowledged
          if (i < 3) std::this_thread::sleep_for(20ms);
          WEFT_REQUIRE(listener.events == events);
          peer.put('s');
          listener.await(++events);
          for (std::uint64_t n = 0; n <= kSilent; ++n) {
            WEFT_REQUIRE(connection.take(queue.spin()) == next++);
          }
        }
        queue.arm(true);
        peer.put('f');
        listener.await(events + 1);
        bool failed = false;
        for (ibv_wc wc; queue.poll(&wc);) failed |= wc.status == IBV_WC_LOC_LEN_ERR;
        WEFT_REQUIRE(failed);
        peer.sync();
        _exit(0);
      },
      [](const Wire& peer) {
        const Opened opened;
        const Channel channel(opened);
        const Queue queue(opened, channel);
        Connection connection(opened, queue);
        connection.connect(peer);
        std::uint64_t next = 0;
        for (std::uint64_t i = 0; i < kTimes; ++i) {
          peer.get<char>();
          for (std::uint64_t n = 0; n < kSilent; ++n) {
            connection.send(next++);
            WEFT_REQUIRE(queue.spin().status == IBV_WC_SUCCESS);
          }
          peer.put('x');
          peer.get<char>();
          connection.send(next++, IBV_SEND_SOLICITED);
          WEFT_REQUIRE(queue.spin().status == IBV_WC_SUCCESS);
          moved();
        }
        peer.get<char>();
        connection.send_too_long();
        WEFT_REQUIRE(queue.spin().status == IBV_WC_REM_INV_REQ_ERR);
        peer.sync();
      });
}

TEST_P(WaitingWays, a_thread_may_wait_before_another_arms) {
  between_two_processes(
      path(),
      [](const Wire& peer) {
        const Opened opened;
        const Channel channel(opened);
        const Queue queue(opened, channel);
        Connection connection(opened, queue);
        connection.connect(peer);
        auto& listener = *new Listener(channel.shown, way());
        for (int i = 0; i < 50; ++i) {
          if (i < 3) std::this_thread::sleep_for(20ms);
          peer.put('g');
          connection.take(queue.spin());  // not armed: no event
          WEFT_REQUIRE(listener.events == i);
          queue.arm();
          peer.put('g');
          listener.await(i + 1);
          connection.take(queue.spin());
        }
        peer.sync();
        _exit(0);
      },
      [](const Wire& peer) {
        const Opened opened;
        const Channel channel(opened);
        const Queue queue(opened, channel);
        Connection connection(opened, queue);
        connection.connect(peer);
        for (std::uint64_t i = 0; i < 100; ++i) {
          peer.get<char>();
          connection.send(i);
          WEFT_REQUIRE(queue.spin().status == IBV_WC_SUCCESS);
          moved();
        }
        peer.sync();
      });
}

INSTANTIATE_TEST_SUITE_P(PathsAndWays, WaitingWays,
                         testing::Combine(testing::Values(WaitPath::kNeighbour, WaitPath::kFramed),
                                          testing::ValuesIn(kAllWays)),
                         name_of_setting);

// ---- a channel for each connection ----------------------------------------------------------

/// One event loop over many channels; only the ways that can do that.
class WaitingLoop : public WaitingSuite {};

TEST_P(WaitingLoop, sleeps_on_a_channel_for_each_of_sixteen_connections) {
  both([](const Wire& peer, Turn turn) {
    constexpr std::size_t kConnections = 16;
    constexpr std::uint64_t kEach = kRounds / 20;
    struct Mine {
      Mine(const Opened& opened, Turn turn)
          : channel(opened),
            queue(opened, channel),
            connection(opened, queue),
            game(connection, turn, kEach) {}
      Channel channel;
      Queue queue;
      Connection connection;
      PingPong game;
    };
    const Opened opened;
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    std::vector<std::unique_ptr<Mine>> all;
    for (std::size_t i = 0; i < kConnections; ++i) {
      Mine& mine = *all.emplace_back(std::make_unique<Mine>(opened, turn));
      set_blocking(mine.channel.fd(), blocks(way()));
      epoll_event event{.events = EPOLLIN | (way() == Way::kEdge ? EPOLLET : 0U),
                        .data = {.ptr = &mine}};
      WEFT_REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, mine.channel.fd(), &event) == 0);
      mine.connection.connect(peer);
      mine.queue.arm();
    }
    peer.sync();
    for (const auto& mine : all) mine->game.begin();
    const auto serve = [](Mine& mine) {
      ibv_cq* const told = take_without_sleep(mine.channel.shown);
      if (told == nullptr) {
        WEFT_REQUIRE(errno == EAGAIN && !blocks(way()));
        return false;
      }
      WEFT_REQUIRE(told == mine.queue.shown);
      mine.queue.arm();
      for (ibv_wc wc; mine.queue.poll(&wc);) mine.game.on_completion(wc);
      return true;
    };
    const auto over = [&] {
      return std::ranges::all_of(all, [](const auto& mine) { return mine->game.over(); });
    };
    while (!over()) {
      std::array<epoll_event, kConnections> ready;
      const int n = epoll_wait(epoll, ready.data(), static_cast<int>(ready.size()), -1);
      for (int i = 0; i < n; ++i) {
        Mine& mine = *static_cast<Mine*>(ready[static_cast<std::size_t>(i)].data.ptr);
        if (way() == Way::kEdge) {
          while (serve(mine)) {
          }
        } else {
          serve(mine);
        }
      }
    }
    peer.sync();
    close(epoll);
  });
}

INSTANTIATE_TEST_SUITE_P(PathsAndWays, WaitingLoop,
                         testing::Combine(testing::Values(WaitPath::kNeighbour, WaitPath::kFramed),
                                          testing::Values(Way::kEpoll, Way::kEdge,
                                                          Way::kPollThenCall)),
                         name_of_setting);

}  // namespace
}  // namespace weft::test

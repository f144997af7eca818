// The progress engine: who runs, when, and how often; its heap of deadlines against a model.
#include "path/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "queue/frame_receiver.h"
#include "support/queue_end.h"

namespace weft::path {
namespace {

class StoppedClock final : public base::Clock {
 public:
  Nanoseconds now() override { return time_ns; }
  Nanoseconds time_ns = 0;
};

class NoQueuePairs final : public QueuePairTable {
 public:
  queue::QueuePair* find(Qpn) override { return nullptr; }
};

/// Notes that the engine ran the queue pair: what reaches its path.
class Runs final : public queue::Path {
 public:
  void advance(queue::QueuePair& qp, queue::SendGuard, queue::Budget) override {
    order->push_back(&qp);
    if (again) again();
  }
  bool fast_post(queue::QueuePair&, const SendRequest&) override { return false; }
  void start_sending(queue::QueuePair&) override {}
  void stop(queue::QueuePair&) override { ++stops; }

  std::vector<queue::QueuePair*>* order = nullptr;
  std::function<void()> again;
  int stops = 0;
};

class EngineTest : public testing::Test {
 protected:
  void make(std::size_t n) {
    while (qps.size() < n) {
      auto& qp = *qps.emplace_back(std::make_unique<queue::QueuePair>());
      qp.state = QpState::kReadyToSend;
      qp.shared = &shared;
      auto path = std::make_unique<Runs>();
      path->order = &ran;
      paths.push_back(path.get());
      qp.path = std::move(path);
    }
  }
  /// Everything that is due at this time, in the order in which it ran.
  std::vector<std::size_t> run_until(Nanoseconds when) {
    clock.time_ns = when;
    ran.clear();
    while (engine.progress()) {
    }
    std::vector<std::size_t> indices;
    for (const queue::QueuePair* qp : ran) {
      for (std::size_t i = 0; i < qps.size(); ++i) {
        if (qps[i].get() == qp) indices.push_back(i);
      }
    }
    return indices;
  }

  using Order = std::vector<std::size_t>;
  StoppedClock clock;
  NoQueuePairs table;
  obs::Counters counters;
  queue::Shared shared;
  Engine engine{clock, table, counters};
  std::vector<std::unique_ptr<queue::QueuePair>> qps;
  std::vector<Runs*> paths;
  std::vector<queue::QueuePair*> ran;
};

TEST_F(EngineTest, runs_each_once_in_the_order_of_asking) {
  make(3);
  EXPECT_TRUE(engine.idle());
  for (const std::size_t i : {2u, 0u, 2u, 1u, 0u}) engine.run_soon(*qps[i]);
  EXPECT_FALSE(engine.idle());
  EXPECT_EQ(run_until(0), (Order{2, 0, 1}));
  EXPECT_TRUE(run_until(0).empty());
  EXPECT_TRUE(engine.idle());
}

TEST_F(EngineTest, runs_again_what_asks_while_it_runs) {
  make(1);
  int left = 3;
  paths[0]->again = [&] {
    if (left-- > 0) engine.run_soon(*qps[0]);
  };
  engine.run_soon(*qps[0]);
  EXPECT_EQ(run_until(0).size(), 4u);
}

TEST_F(EngineTest, leaves_the_rest_to_the_next_call_when_somebody_never_stops_asking) {
  make(1);
  paths[0]->again = [&] { engine.run_soon(*qps[0]); };
  engine.run_soon(*qps[0]);
  EXPECT_TRUE(engine.progress()) << "this call must come back";
  EXPECT_TRUE(engine.has_runnable());
  engine.forget(*qps[0]);
}

TEST_F(EngineTest, does_not_run_what_is_reset) {
  make(1);
  qps[0]->state = QpState::kReset;
  engine.run_soon(*qps[0]);
  EXPECT_TRUE(run_until(0).empty());
}

TEST_F(EngineTest, forgets_from_the_front_the_middle_and_the_end) {
  make(5);
  for (std::size_t i = 0; i < 5; ++i) engine.run_soon(*qps[i]);
  for (const std::size_t i : {4u, 0u, 2u}) engine.forget(*qps[i]);
  engine.run_soon(*qps[2]);
  EXPECT_EQ(run_until(0), (Order{1, 3, 2}));
  engine.forget(*qps[1]);
  EXPECT_TRUE(engine.idle());
}

TEST_F(EngineTest, fires_a_timer_at_its_time_and_once) {
  make(1);
  engine.run_at(*qps[0], 100);
  EXPECT_EQ(engine.next_deadline(), 100u);
  EXPECT_TRUE(run_until(99).empty());
  EXPECT_EQ(run_until(100), Order{0});
  EXPECT_TRUE(run_until(1000).empty());
  EXPECT_EQ(engine.next_deadline(), kNever);
}

TEST_F(EngineTest, keeps_the_earlier_of_two_times) {
  make(1);
  engine.run_at(*qps[0], 100);
  engine.run_at(*qps[0], 200);
  EXPECT_EQ(engine.next_deadline(), 100u);
  engine.run_at(*qps[0], 50);
  engine.run_at(*qps[0], kNever);
  EXPECT_EQ(engine.next_deadline(), 50u);
}

/// A port at which something happens while it is looked at.
class BusyPort final : public port::Port {
 public:
  Gid address() const override { return {}; }
  Mtu max_mtu() const override { return Mtu::k1024; }
  port::SendOutcome send(std::span<const port::Outgoing> frames) override {
    return {port::SendStatus::kTaken, frames.size()};
  }
  std::size_t receive(port::Receiver&, std::size_t max) override {
    if (meanwhile) meanwhile();
    return std::min(max, waiting);
  }
  std::function<void()> meanwhile;
  std::size_t waiting = 0;  ///< frames that it claims to have handed up
};

/// Notes for which time its time-outs are to be seen to.
class TimedRuns final : public queue::Path, public queue::FrameReceiver {
 public:
  void advance(queue::QueuePair&, queue::SendGuard, queue::Budget) override {}
  bool fast_post(queue::QueuePair&, const SendRequest&) override { return false; }
  void start_sending(queue::QueuePair&) override {}
  void stop(queue::QueuePair&) override {}
  queue::FrameReceiver* frame_receiver() override { return this; }
  void on_frame(queue::QueuePair&, const wire::Packet&, const port::Incoming&,
                Nanoseconds) override {}
  bool fast_on_frame(queue::QueuePair&, std::span<const std::byte>) override { return false; }
  void on_congestion(queue::QueuePair&, Nanoseconds) override {}
  void run(queue::QueuePair&, Nanoseconds looked_at) override { times.push_back(looked_at); }
  bool answer(queue::QueuePair&, bool) override { return false; }
  void release(queue::QueuePair&) override {}
  void acknowledge_all(queue::QueuePair&) override {}

  std::vector<Nanoseconds> times;
};

TEST_F(EngineTest, sees_to_timeouts_as_of_when_it_looked_not_of_when_it_comes_to_them) {
  // B2.1
  BusyPort port;
  engine.add_port(port);
  make(1);
  auto path = std::make_unique<TimedRuns>();
  const TimedRuns& runs = *path;
  qps[0]->path = std::move(path);
  engine.run_at(*qps[0], 100);
  clock.time_ns = 120;
  // A time-out is due; the thread is held up for long before it comes to it.
  port.meanwhile = [&] { clock.time_ns = 900; };
  engine.progress();
  EXPECT_EQ(runs.times, std::vector<Nanoseconds>{120});
}

TEST_F(EngineTest, fires_no_timer_while_a_port_has_more_unless_that_never_ends) {
  BusyPort port;
  engine.add_port(port);
  make(1);
  engine.run_at(*qps[0], 100);
  clock.time_ns = 500;
  port.waiting = 1 << 20;
  for (int round = 0; round < 100; ++round) engine.progress();
  EXPECT_TRUE(ran.empty()) << "the answer may be in what is left";
  for (int round = 0; round < 1000; ++round) engine.progress();
  EXPECT_EQ(ran.size(), 1u) << "who floods a port must not stop time-outs";
  port.waiting = 0;
  engine.run_at(*qps[0], 400);
  engine.progress();
  EXPECT_EQ(ran.size(), 2u);
}

TEST_F(EngineTest, fires_no_timer_before_what_came_in_time_was_looked_at) {
  BusyPort port;
  engine.add_port(port);
  make(1);
  engine.run_at(*qps[0], 100);
  clock.time_ns = 50;
  // The thread is held up for long: what came meanwhile has not been looked at.
  port.meanwhile = [&] { clock.time_ns = 500; };
  engine.progress();
  EXPECT_TRUE(ran.empty());
  port.meanwhile = nullptr;
  EXPECT_EQ(run_until(500), Order{0});
}

TEST_F(EngineTest, leaves_timers_to_the_thread_that_is_at_the_port) {
  BusyPort port;
  engine.add_port(port);
  make(1);
  engine.run_at(*qps[0], 100);
  clock.time_ns = 500;
  port.meanwhile = [&] {
    port.meanwhile = nullptr;
    std::thread([&] { engine.progress(); }).join();
    EXPECT_TRUE(ran.empty());
  };
  engine.progress();
  EXPECT_EQ(ran.size(), 1u);
}

TEST_F(EngineTest, flushes_what_failed) {
  test::QueueEnd end({});
  end.shared.scheduler = &engine;
  auto path = std::make_unique<Runs>();
  path->order = &ran;
  Runs& runs = *path;
  end.qp.path = std::move(path);
  ASSERT_TRUE(end.post_send({.wr_id = 1}));
  queue::fail_queue_pair(end.qp);
  run_until(0);
  EXPECT_EQ(runs.stops, 1);
  EXPECT_EQ(end.take_sends().size(), 1u);
  engine.forget(end.qp);
}

TEST_F(EngineTest, wakes_a_helper_for_work_and_for_deadlines) {
  make(2);
  std::vector<Nanoseconds> woken;
  engine.set_wake([&](Nanoseconds deadline) { woken.push_back(deadline); });
  engine.run_soon(*qps[0]);
  engine.run_at(*qps[1], 70);
  EXPECT_EQ(woken, (std::vector<Nanoseconds>{0, 70}));
}

TEST_F(EngineTest, fires_timers_as_a_model_of_them_says) {
  base::SeededRandom random(11);
  make(200);
  std::map<std::size_t, Nanoseconds> model;
  for (int step = 0; step < 50'000; ++step) {
    const std::size_t i = random.below(qps.size());
    switch (random.below(8)) {
      case 0: {
        engine.forget(*qps[i]);
        model.erase(i);
        break;
      }
      case 1: {
        const Nanoseconds now = clock.time_ns + random.below(60);
        std::multimap<Nanoseconds, std::size_t> due;
        for (const auto& [who, when] : model) {
          if (when <= now) due.emplace(when, who);
        }
        const Order got = run_until(now);
        ASSERT_EQ(got.size(), due.size());
        Nanoseconds last = 0;
        for (const std::size_t who : got) {
          ASSERT_TRUE(model.contains(who) && model[who] <= now) << "not due";
          ASSERT_GE(model[who], last) << "out of order";
          last = model[who];
          model.erase(who);
        }
        break;
      }
      default: {
        const Nanoseconds when = clock.time_ns + random.below(500);
        engine.run_at(*qps[i], when);
        const auto [at, fresh] = model.emplace(i, when);
        if (!fresh) at->second = std::min(at->second, when);
        break;
      }
    }
    Nanoseconds earliest = kNever;
    for (const auto& [who, when] : model) earliest = std::min(earliest, when);
    ASSERT_EQ(engine.next_deadline(), earliest);
  }
}

}  // namespace
}  // namespace weft::path

// Several threads at once over direct and UDP: posting, polling, taking memory away and taking
// queue pairs away, all under traffic.
#include <poll.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "support/path_suite.h"

namespace weft::test {
namespace {

class ThreadsPath : public PathSuite {
 protected:
  /// Polls until `stop`; every completion goes to the visitor.
  void poll_until(const std::atomic<bool>& stop, const CompletionQueue& cq,
                  const std::function<void(const Completion&)>& visit) const {
    std::array<Completion, 16> some;
    while (!stop.load(std::memory_order_relaxed)) {
      const std::size_t n = cq.poll(some);
      for (std::size_t i = 0; i < n; ++i) visit(some[i]);
      pump();
      if (n == 0) std::this_thread::yield();
    }
  }

  /// Posts, and makes room by polling when the queue is full. False: it is not taken any more.
  bool post_or_poll(QueuePair& qp, const SendRequest& request) const {
    const auto deadline = Steady::now() + kPatience;
    for (;;) {
      const auto posted = qp.post_send(request);
      if (posted) return true;
      if (posted.error().code != Errc::kQueueFull) return false;
      pump();
      std::this_thread::yield();
      if (Steady::now() > deadline) throw std::runtime_error("the send queue stays full");
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Over, ThreadsPath,
                         testing::Values(Way{Wire::kDirect, false}, Way{Wire::kUdp, false},
                                         Way{Wire::kDirect, true}),
                         way_name);

constexpr std::uint32_t kThreads = 3;

TEST_P(ThreadsPath, threads_share_one_queue_pair_and_one_completion_queue) {
  // B1.4: each request completes exactly once, whoever polls.
  constexpr std::uint32_t kEach = 400;
  auto [qa, qb] = connect();
  Memory from(a, 8 * kThreads * kEach), to(b, 8 * kThreads * kEach);
  from.fill(1);
  std::mutex mutex;
  std::multiset<std::uint64_t> completed;
  std::atomic<std::uint32_t> failures{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t, qp = &qa] {
      for (std::uint32_t i = 0; i < kEach; ++i) {
        const std::uint32_t at = t * kEach + i;
        const Sge sge = from.sge(8 * at, 8);
        SendRequest request{.wr_id = at, .op = SendOp::kWrite, .sges = {&sge, 1}};
        request.remote = to.remote(8 * at);
        if (!post_or_poll(*qp, request)) ++failures;
      }
    });
    threads.emplace_back([&] {
      poll_until(stop, a.sends, [&](const Completion& completion) {
        if (!completion.ok()) ++failures;
        const std::lock_guard guard(mutex);
        completed.insert(completion.wr_id);
      });
    });
  }
  const bool all = wait_until([&] {
    const std::lock_guard guard(mutex);
    return completed.size() >= kThreads * kEach;
  });
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(all);
  EXPECT_EQ(failures, 0u);
  EXPECT_EQ(completed.size(), kThreads * kEach);
  EXPECT_EQ(std::set(completed.begin(), completed.end()).size(), kThreads * kEach);
  EXPECT_TRUE(to.holds(1));
}

TEST_P(ThreadsPath, threads_with_queue_pairs_of_their_own_share_a_completion_queue) {
  // B1.4: the completions of each queue pair come in its order.
  constexpr std::uint32_t kEach = 300;
  std::vector<Link> links;
  for (std::uint32_t t = 0; t < kThreads; ++t) links.push_back(connect());
  Memory from(a, 64), to(b, 64 * kThreads);
  from.fill(2);
  std::atomic<std::uint32_t> failures{0};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const Sge sge = from.sge();
      for (std::uint32_t i = 0; i < kEach; ++i) {
        SendRequest request{.wr_id = i, .op = i % 3 == 0 ? SendOp::kRead : SendOp::kWrite};
        const Sge into = from.sge(0, 0);
        request.sges = {i % 3 == 0 ? &into : &sge, 1};
        request.remote = to.remote(64 * t);
        if (!post_or_poll(links[t].a, request)) ++failures;
      }
    });
  }
  std::map<std::uint32_t, std::uint64_t> expected;
  for (std::uint32_t i = 0; i < kThreads * kEach; ++i) {
    const Completion completion = next(a.sends);
    EXPECT_TRUE(completion.ok()) << to_string(completion.status);
    EXPECT_EQ(completion.wr_id, expected[completion.qpn.value]++);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0u);
  for (std::uint32_t t = 0; t < kThreads; ++t) EXPECT_TRUE(to.holds(2, 64 * t, 64));
}

TEST_P(ThreadsPath, both_ends_send_and_receive_from_several_threads) {
  constexpr std::uint32_t kEach = 300;
  auto [qa, qb] = connect();
  Memory at_a(a, 4096), at_b(b, 4096);
  std::atomic<std::uint32_t> received{0}, sent{0}, failures{0};
  std::atomic<bool> stop{false};
  const auto count = [&](std::atomic<std::uint32_t>& counter) {
    return [&](const Completion& completion) { ++(completion.ok() ? counter : failures); };
  };
  std::vector<std::thread> threads;
  for (const auto& [qp, memory] : {std::pair{&qa, &at_a}, std::pair{&qb, &at_b}}) {
    threads.emplace_back([&, qp = qp, memory = memory] {  // keeps buffers there
      for (std::uint32_t i = 0; i < kEach;) {
        const Sge sge = memory->sge(2048, 2048);
        if (qp->post_receive({i, {&sge, 1}})) {
          ++i;
        } else {
          std::this_thread::yield();
        }
      }
    });
    threads.emplace_back([&, qp = qp, memory = memory] {
      for (std::uint32_t i = 0; i < kEach; ++i) {
        const Sge sge = memory->sge(0, i % 2048);
        if (!post_or_poll(*qp, {.wr_id = i, .sges = {&sge, 1}})) ++failures;
      }
    });
  }
  threads.emplace_back([&] { poll_until(stop, a.sends, count(sent)); });
  threads.emplace_back([&] { poll_until(stop, b.sends, count(sent)); });
  threads.emplace_back([&] { poll_until(stop, a.receives, count(received)); });
  threads.emplace_back([&] { poll_until(stop, b.receives, count(received)); });
  const bool all = wait_until([&] { return sent + received + failures >= 4 * kEach; });
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(all);
  EXPECT_EQ(failures, 0u);
  EXPECT_EQ(sent, 2 * kEach);
  EXPECT_EQ(received, 2 * kEach);
}

TEST_P(ThreadsPath, not_one_byte_changes_after_deregistration_returned) {
  // B4.9: whatever the peer has under way.
  constexpr std::uint32_t kSize = 256 * 1024;
  Memory from(a, kSize);
  from.fill(3);
  std::vector<std::byte> target(kSize), frozen(kSize);
  for (int round = 0; round < 30; ++round) {
    Link link = connect();
    std::fill(target.begin(), target.end(), std::byte{0});
    MemoryRegion region = must(b.pd.register_memory(target, kEverything));
    const RemoteAddress remote = region.remote();
    std::atomic<bool> stop{false}, started{false};
    std::thread writer([&] {
      const Sge sge = from.sge();
      while (!stop) {
        if (link.a.post_send(
                SendRequest{.op = SendOp::kWrite, .sges = {&sge, 1}, .remote = remote})) {
          started = true;
        }
        while (a.sends.poll()) continue;
      }
    });
    std::thread poller([&] {
      while (!stop) pump();
    });
    const bool began = wait_until([&] { return started.load(); });
    for (int i = 0; i < round * 3; ++i) pump();
    must(region.deregister());
    frozen = target;
    for (int i = 0; i < 200; ++i) pump();
    EXPECT_EQ(target, frozen) << "in round " << round;
    stop = true;
    writer.join();
    poller.join();
    EXPECT_TRUE(began);
  }
  while (a.sends.poll()) continue;
}

TEST_P(ThreadsPath, moving_to_error_under_traffic_flushes_each_request_once) {
  for (int round = 0; round < 20; ++round) {
    Link link = connect();
    Memory from(a, 4096), to(b, 4096);
    std::atomic<std::uint64_t> posted{0}, completed{0};
    std::atomic<bool> stop{false};
    std::thread writer([&] {
      const Sge sge = from.sge();
      while (!stop) {
        SendRequest request{.wr_id = posted, .op = SendOp::kWrite, .sges = {&sge, 1}};
        request.remote = to.remote();
        // Never more than the completion queue holds.
        if (posted - completed < 1000 && link.a.post_send(request)) {
          ++posted;
        } else {
          std::this_thread::yield();
        }
      }
    });
    bool flushed = false;
    const auto take = [&] {
      const auto completion = a.sends.poll();
      if (!completion) return false;
      EXPECT_EQ(completion->wr_id, completed) << "in order, none twice";
      ++completed;
      EXPECT_TRUE(completion->ok() ? !flushed : completion->status == CompletionStatus::kFlushed);
      flushed = flushed || !completion->ok();
      return true;
    };
    EXPECT_TRUE(wait_until([&] { return take() && completed > 20; }));
    must(link.a.modify(QpState::kError));
    EXPECT_TRUE(wait_until([&] { return take() && flushed; }));
    stop = true;
    writer.join();
    EXPECT_TRUE(wait_until([&] {
      take();
      return completed >= posted;
    }));
    EXPECT_TRUE(is_quiet(a.sends));
  }
}

TEST_P(ThreadsPath, a_peer_may_vanish_under_traffic) {
  QueuePairAttributes attributes;
  attributes.timeout = 8;
  attributes.retry_count = 1;
  for (int round = 0; round < 20; ++round) {
    Link link = connect({}, attributes);
    Memory near(a, 128 * 1024), far(b, 128 * 1024);
    std::atomic<bool> stop{false}, failed{false};
    std::thread sender([&] {
      std::uint64_t i = 0;
      while (!stop) {
        // Writes and reads have memory of their own, or the program itself would race.
        const std::uint32_t half = ++i % 2 == 0 ? 0 : 64 * 1024;
        const Sge sge = near.sge(half, 64 * 1024);
        SendRequest request{.op = half == 0 ? SendOp::kWrite : SendOp::kRead, .sges = {&sge, 1}};
        request.remote = far.remote(half);
        static_cast<void>(link.a.post_send(request));
        while (const auto completion = a.sends.poll()) failed = failed || !completion->ok();
      }
    });
    pump_a_while();
    switch (round % 3) {
      case 0:
        must(link.b.modify(QpState::kReset));
        break;
      case 1:
        must(link.b.modify(QpState::kError));
        break;
      default: {
        const QueuePair gone = std::move(link.b);
      }
    }
    EXPECT_TRUE(wait_until([&] { return failed.load(); })) << "round " << round;
    stop = true;
    sender.join();
  }
}

TEST_P(ThreadsPath, queue_pairs_come_and_go_while_others_work) {
  Memory from(a, 4096), to(b, 4096 * kThreads);
  std::atomic<bool> stop{false};
  std::atomic<std::uint32_t> failures{0}, rounds{0};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const CompletionQueue cq = must(a.device.create_cq(64));
      while (!stop) {
        Link link{must(a.pd.create_queue_pair(cq, cq)), b.create()};
        reconnect(link);
        for (int i = 0; i < 3; ++i) {
          post(link.a, {.op = SendOp::kWrite, .remote = to.remote(4096 * t)}, {from.sge()});
          Completion completion;
          if (!wait_until([&] { return cq.poll(std::span(&completion, 1)) == 1; }) ||
              !completion.ok()) {
            ++failures;
          }
        }
        ++rounds;
      }
    });
  }
  EXPECT_TRUE(wait_until([&] { return rounds >= 100; }));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0u);
}

TEST_P(ThreadsPath, the_owner_of_the_memory_need_not_poll) {
  // B1.7: the process that owns the memory takes no part in a one-sided operation.
  auto [qa, qb] = connect();
  Memory from(a, 100'000), to(b, 100'000);
  from.fill(4);
  post(qa, {.wr_id = 1, .op = SendOp::kWrite, .remote = to.remote()}, {from.sge()});
  const auto completion = a.sends.wait(kPatience);  // polls this end alone
  ASSERT_TRUE(completion.has_value()) << completion.error().message;
  EXPECT_TRUE(is_done(*completion, 1, CompletionOp::kWrite, 100'000));
  EXPECT_TRUE(to.holds(4));
}

TEST_P(ThreadsPath, nobody_need_poll_for_a_channel_to_wake) {
  const auto channel = must(b.device.create_channel());
  const CompletionQueue cq = must(b.device.create_cq(16, channel));
  Link link{a.create(), must(b.pd.create_queue_pair(b.sends, cq))};
  reconnect(link);
  Memory from(a, 1 << 20), to(b, 1 << 20);
  from.fill(5);
  post_receive(link.b, 50, {to.sge()});
  cq.request_notify();
  post(link.a, {.wr_id = 1, .op = SendOp::kSend}, {from.sge()});
  pollfd wait{channel.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, 1000 * static_cast<int>(kPatience.count())), 1);
  const auto completion = cq.poll();
  ASSERT_TRUE(completion.has_value());
  EXPECT_TRUE(is_done(*completion, 50, CompletionOp::kReceive, 1 << 20));
  EXPECT_TRUE(to.holds(5));
}

}  // namespace
}  // namespace weft::test

// Memory that is taken back while it is in use, on every path: when the call or the work that takes
// it back has ended, not one byte of it is read or written any more. The owner uses the memory for
// something else at once; nothing of that may reach the peer, and nothing of the peer's the owner.
#include <atomic>
#include <functional>
#include <future>
#include <random>

#include "support/path_suite.h"
#include "support/soak_time.h"

namespace weft::test {
namespace {

constexpr std::uint32_t kBytes = 128 * 1024;
constexpr std::uint32_t kPart = 32 * 1024;  ///< of one request
constexpr std::byte kShared{0x5A}, kPrivate{0xC3};
constexpr int kFewestRounds = 10;  ///< however long they take
constexpr std::size_t kStampEvery = 512;

/// A dead peer is given up quickly.
QueuePairAttributes impatient() {
  QueuePairAttributes attributes;
  attributes.timeout = 8;
  attributes.retry_count = 2;
  return attributes;
}

class RevocationPath : public PathSuite {
 protected:
  /// Requests of one kind, one after the other over the whole memory, until the first one fails.
  /// The thread that posts them polls too.
  class Traffic {
   public:
    using Request = std::function<SendRequest(std::uint32_t part)>;

    Traffic(QueuePair& qp, const CompletionQueue& cq, const Request& request)
        : thread_([&, request] { run(qp, cq, request); }) {}
    ~Traffic() {
      stop_ = true;
      thread_.join();
    }
    Traffic(const Traffic&) = delete;
    Traffic& operator=(const Traffic&) = delete;

    std::uint64_t completed() const { return completed_.load(std::memory_order_acquire); }
    bool ended() const { return ended_.load(std::memory_order_acquire); }

   private:
    void run(QueuePair& qp, const CompletionQueue& cq, const Request& request) {
      std::uint32_t part = 0;
      std::uint64_t posted = 0;
      while (!stop_) {
        while (posted - completed_ < 8 && qp.post_send(request(part))) {
          part = (part + 1) % (kBytes / kPart);
          ++posted;
        }
        while (const auto completion = cq.poll()) {
          if (!completion->ok()) failed_ = true;
          completed_.fetch_add(1, std::memory_order_release);
        }
        if (failed_ && completed_ >= posted) ended_.store(true, std::memory_order_release);
      }
      while (cq.poll()) continue;
    }

    std::atomic<std::uint64_t> completed_{0};
    std::atomic<bool> stop_{false}, ended_{false};
    bool failed_ = false;
    std::thread thread_;
  };

  /// One round after the other for a while.
  void repeat(const std::function<void()>& round) {
    const auto end = Steady::now() + soak_time(std::chrono::milliseconds(250));
    for (int rounds = 0; rounds < kFewestRounds || Steady::now() < end; ++rounds) {
      round();
      if (HasFailure()) return;
    }
  }

  /// Until the traffic flows, and then a moment longer.
  void wait_for(const Traffic& traffic) {
    ASSERT_TRUE(wait_until([&] { return traffic.completed() > 2; }));
    const auto until = Steady::now() + std::chrono::microseconds(random_() % 150);
    while (Steady::now() < until) continue;
  }

  /// The memory is the owner's alone again. A few bytes first: behind a whole fill most late
  /// accesses would be over.
  static void use(std::span<std::byte> bytes) {
    volatile std::byte* at = bytes.data();
    for (std::size_t i = 0; i < bytes.size(); i += kStampEvery) at[i] = kPrivate;
    std::fill(bytes.begin(), bytes.end(), kPrivate);
  }
  static std::size_t count(std::span<const std::byte> bytes, std::byte value) {
    return static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), value));
  }

  /// The peer reads memory of `b` by a key; `take_back` ends that.
  void peer_reads(const std::function<RemoteAddress(Link&, Memory&)>& grant,
                  const std::function<void(Link&, Memory&)>& take_back) {
    Memory copy(a, kBytes);
    repeat([&] {
      Link link = connect({}, impatient());
      Memory secret(b, kBytes);
      std::fill(secret.bytes.begin(), secret.bytes.end(), kShared);
      std::fill(copy.bytes.begin(), copy.bytes.end(), std::byte{0});
      const RemoteAddress from = grant(link, secret);
      {
        std::array<Sge, kBytes / kPart> sges;
        for (std::uint32_t i = 0; i < sges.size(); ++i) sges[i] = copy.sge(i * kPart, kPart);
        const Traffic reads(link.a, a.sends, [&](std::uint32_t part) {
          return SendRequest{.op = SendOp::kRead,
                             .sges = {&sges[part], 1},
                             .remote = {from.address + part * kPart, from.key}};
        });
        wait_for(reads);
        take_back(link, secret);
        use(secret.bytes);
        ASSERT_TRUE(wait_until([&] { return reads.ended(); }));
      }
      EXPECT_EQ(count(copy.bytes, kPrivate), 0u) << "bytes were read afterwards";
    });
  }

  /// Does work on the send queue of `b`, by its own thread, which serves the peer's requests too.
  void work(QueuePair& qp, const SendRequest& request) {
    post(qp, request);
    EXPECT_EQ(next(b.sends).status, kDone);
  }

  std::mt19937 random_{std::random_device()()};
};
INSTANTIATE_TEST_SUITE_P(Over, RevocationPath,
                         testing::Values(Way{Wire::kDirect, false}, Way{Wire::kUdp, false},
                                         Way{Wire::kPipe, false}, Way{Wire::kNeighbour, false}),
                         way_name);

TEST_P(RevocationPath, nothing_is_read_after_deregistration) {
  // B4.9: a key is served while it is live, and no longer.
  peer_reads([](Link&, Memory& secret) { return secret.remote(); },
             [](Link&, Memory& secret) { must(secret.region.deregister()); });
}

TEST_P(RevocationPath, nothing_is_read_after_a_local_invalidate) {
  std::optional<MemoryWindow> window;
  peer_reads(
      [&](Link& link, Memory& secret) {
        window.emplace(must(b.pd.allocate_window(WindowType::kType2)));
        work(link.b, window->bind_request(secret.region, 0, kBytes, Access::kRemoteRead));
        return RemoteAddress{secret.region.address(), window->rkey()};
      },
      [&](Link& link, Memory&) {
        SendRequest invalidate{.op = SendOp::kLocalInvalidate};
        invalidate.invalidate_key = window->rkey();
        work(link.b, invalidate);
        window.reset();
      });
}

TEST_P(RevocationPath, nothing_is_read_after_a_rebind) {
  Memory other(b, kBytes);
  std::optional<MemoryWindow> window;
  peer_reads(
      [&](Link& link, Memory& secret) {
        window.emplace(must(b.pd.allocate_window(WindowType::kType1)));
        work(link.b, window->bind_request(secret.region, 0, kBytes, Access::kRemoteRead));
        return RemoteAddress{secret.region.address(), window->rkey()};
      },
      [&](Link& link, Memory&) {
        work(link.b, window->bind_request(other.region, 0, kBytes, Access::kRemoteRead));
        window.reset();
      });
}

TEST_P(RevocationPath, nothing_is_read_through_a_queue_pair_in_error) {
  peer_reads([](Link&, Memory& secret) { return secret.remote(); },
             [](Link& link, Memory&) { must(link.b.modify(QpState::kError)); });
}

TEST_P(RevocationPath, nothing_is_read_through_a_queue_pair_that_was_destroyed) {
  peer_reads([](Link&, Memory& secret) { return secret.remote(); },
             [](Link& link, Memory&) { const QueuePair gone = std::move(link.b); });
}

TEST_P(RevocationPath, nothing_is_sent_from_memory_after_its_deregistration) {
  // The owner's own requests, by its local key.
  Memory copy(b, kBytes);
  repeat([&] {
    Link link = connect({}, impatient());
    Memory secret(a, kBytes);
    std::fill(secret.bytes.begin(), secret.bytes.end(), kShared);
    std::fill(copy.bytes.begin(), copy.bytes.end(), std::byte{0});
    {
      std::array<Sge, kBytes / kPart> sges;
      for (std::uint32_t i = 0; i < sges.size(); ++i) sges[i] = secret.sge(i * kPart, kPart);
      const Traffic writes(link.a, a.sends, [&](std::uint32_t part) {
        return SendRequest{
            .op = SendOp::kWrite, .sges = {&sges[part], 1}, .remote = copy.remote(part * kPart)};
      });
      wait_for(writes);
      must(secret.region.deregister());
      use(secret.bytes);
      ASSERT_TRUE(wait_until([&] { return writes.ended(); }));
    }
    pump_a_while();
    must(link.b.modify(QpState::kError));  // nobody writes to it while it is looked at
    EXPECT_EQ(count(copy.bytes, kPrivate), 0u) << "bytes were sent afterwards";
  });
}

TEST_P(RevocationPath, nothing_lands_where_answers_went_after_its_deregistration) {
  Memory secret(b, kBytes);
  std::fill(secret.bytes.begin(), secret.bytes.end(), kShared);
  repeat([&] {
    Link link = connect({}, impatient());
    Memory copy(a, kBytes);
    std::array<Sge, kBytes / kPart> sges;
    for (std::uint32_t i = 0; i < sges.size(); ++i) sges[i] = copy.sge(i * kPart, kPart);
    const Traffic reads(link.a, a.sends, [&](std::uint32_t part) {
      return SendRequest{
          .op = SendOp::kRead, .sges = {&sges[part], 1}, .remote = secret.remote(part * kPart)};
    });
    wait_for(reads);
    must(copy.region.deregister());
    use(copy.bytes);
    ASSERT_TRUE(wait_until([&] { return reads.ended(); }));
    EXPECT_EQ(count(copy.bytes, kPrivate), kBytes) << "bytes landed afterwards";
  });
}

// Two threads, each of which rebinds a window that is read through the other's queue pair: what a
// thread is about to send through its own must not keep the other one waiting, and the other way
// round.
TEST_P(RevocationPath, threads_that_rebind_what_the_other_serves_do_not_wait_in_a_circle) {
  Memory secret(b, kBytes), copy(a, kBytes);
  struct Side {
    Link link;
    CompletionQueue cq;  ///< of the queue pair that serves
    CompletionQueue peers_cq;
    MemoryWindow window;
    RemoteAddress remote;
    Sge into;
  };
  const auto make = [&](std::uint32_t i) {
    CompletionQueue cq = must(b.device.create_cq(64)), peers = must(a.device.create_cq(64));
    Link link{must(a.pd.create_queue_pair(peers, peers)), must(b.pd.create_queue_pair(cq, cq))};
    reconnect(link, impatient());
    return Side{
        std::move(link),           cq, peers, must(b.pd.allocate_window(WindowType::kType1)), {},
        copy.sge(i * kPart, kPart)};
  };
  const auto rebind = [&](Side& side) {
    must(side.link.b.post_send(
        side.window.bind_request(secret.region, 0, kPart, Access::kRemoteRead)));
    Completion done;
    EXPECT_TRUE(wait_until([&] { return side.cq.poll(std::span(&done, 1)) == 1; }));
    return done.ok();
  };
  repeat([&] {
    std::array<Side, 2> sides{make(0), make(1)};
    for (Side& side : sides) {
      ASSERT_TRUE(rebind(side));
      side.remote = {secret.region.address(), side.window.rkey()};
    }
    // Each side's peer reads the other side's window.
    const auto reads_of = [](const Side& windows) {
      return [&windows](const Sge& into) {
        return [&windows, &into](std::uint32_t) {
          return SendRequest{.op = SendOp::kRead, .sges = {&into, 1}, .remote = windows.remote};
        };
      };
    };
    const Traffic first(sides[0].link.a, sides[0].peers_cq, reads_of(sides[1])(sides[0].into));
    const Traffic second(sides[1].link.a, sides[1].peers_cq, reads_of(sides[0])(sides[1].into));
    wait_for(first);
    wait_for(second);
    auto one = std::async(std::launch::async, [&] { return rebind(sides[0]); });
    auto other = std::async(std::launch::async, [&] { return rebind(sides[1]); });
    for (auto* rebound : {&one, &other}) {
      if (rebound->wait_for(kPatience) == std::future_status::ready) continue;
      fprintf(stderr, "two threads wait for each other\n");
      abort();  // neither would ever end
    }
  });
}

}  // namespace
}  // namespace weft::test

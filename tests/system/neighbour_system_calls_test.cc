// What needs no kernel, counted: work between two processes on memory of an arena, and windows that
// are bound, bound elsewhere, unbound and invalidated. Set-up is not counted, nor what the helper
// thread does to sleep.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "support/mailbox.h"
#include "support/neighbour_side.h"
#include "support/system_calls.h"

#ifndef __SANITIZE_ADDRESS__  // whose allocator calls the kernel when it likes
namespace weft::test {
namespace {

constexpr const char* kHelper = "weft-helper";

/// What the partners and the test process tell each other without a system call.
struct Meter {
  std::atomic<int> ready{0};  ///< partners that wait for the next round
  std::atomic<int> round{0};  ///< the one that runs
  std::atomic<int> done{0};   ///< partners that have ended it
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> address{0};
  std::atomic<std::uint32_t> key{0};
  std::atomic<std::uint32_t> used{0};  ///< keys that the peer has written by
};

/// In a partner: the next round begins with the test process's word. False: there is none.
bool await_round(Meter& meter, int round) {
  meter.ready.fetch_add(1);
  while (meter.round.load() < round) {
    if (meter.over.load()) return false;
  }
  return true;
}

/// In the test process: runs one round of all partners under the eyes of `calls`.
testing::AssertionResult run_round(Meter& meter, int round, const std::vector<pid_t>& partners,
                                   SystemCalls* calls) {
  const int all = static_cast<int>(partners.size()) * round;
  // The helper is told from the program by its name, which it gives itself.
  const auto not_ready = [&] {
    return meter.ready.load() < all ||
           std::any_of(partners.begin(), partners.end(), SystemCalls::has_unnamed_thread);
  };
  for (const std::int64_t give_up = now_ms() + kPartnerWait_ms; not_ready();) {
    if (now_ms() > give_up) return testing::AssertionFailure() << "the partners are not ready";
    std::this_thread::sleep_for(1ms);
  }
  if (!calls->start(partners)) return testing::AssertionFailure() << "they cannot be traced";
  meter.round.store(round);
  if (!calls->run_until([&] { return meter.done.load() >= all; })) {
    return testing::AssertionFailure() << "the round did not end";
  }
  return testing::AssertionSuccess();
}

void drain_to(Side& side, std::uint64_t* completed, std::uint64_t wanted) {
  std::array<Completion, 16> completions;
  while (*completed < wanted) {
    const std::size_t n = side.cq.poll(completions);
    for (std::size_t i = 0; i < n; ++i) WEFT_REQUIRE(completions[i].ok());
    *completed += n;
  }
}

// ---- between processes --------------------------------------------------------------------------

constexpr std::uint32_t kOneSided = 3000;

/// Writes, reads and atomics, small and large, one after the other.
void work_one_sided(Worker& worker, const Offer& offer) {
  std::uint64_t posted = 0, completed = 0;
  for (std::uint32_t i = 0; i < kOneSided; ++i) {
    constexpr std::array<std::uint32_t, 4> kSizes{8, 64, 1000, 4096};
    const std::uint32_t n = kSizes[i / 3 % kSizes.size()];
    const Sge out = worker.out_region.sge(0, n), in = worker.in_region.sge(0, n);
    const Sge word = worker.in_region.sge(0, 8);
    SendRequest request;
    request.remote = offer.arena;
    request.operand = 1;
    request.op = i % 3 == 0 ? SendOp::kWrite : i % 3 == 1 ? SendOp::kRead : SendOp::kFetchAdd;
    const Sge& sge = i % 3 == 0 ? out : i % 3 == 1 ? in : word;
    request.sges = {&sge, 1};
    WEFT_REQUIRE(worker.side.qp.post_send(request));
    drain_to(worker.side, &completed, ++posted);
  }
}

TEST(NeighbourSystemCalls, none_is_made_by_either_process_for_one_sided_work_on_an_arena) {
  // B1.7: and the owner takes no part.
  Mailbox<Meter> meter;
  Partner target([&](const Wire& wire) {
    Side side;
    Served served(side);
    side.connect(wire);
    wire.put(served.offer());
    if (!await_round(*meter, 1)) return;
    while (meter->done.load() == 0) continue;  // it does nothing at all
    meter->done.fetch_add(1);
    while (!meter->over.load()) continue;
  });
  Partner initiator([&](const Wire& wire) {
    Side side;
    Worker worker(side);
    side.connect(wire);
    const auto offer = wire.get<Offer>();
    work_one_sided(worker, offer);
    if (!await_round(*meter, 1)) return;
    work_one_sided(worker, offer);
    meter->done.fetch_add(1);
    while (!meter->over.load()) continue;
  });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<Offer>());
  SystemCalls calls;
  ASSERT_TRUE(run_round(*meter, 1, {initiator.pid(), target.pid()}, &calls));
  for (const pid_t process : {initiator.pid(), target.pid()}) {
    const auto program = calls.of_program(process, kHelper);
    EXPECT_EQ(SystemCalls::total(program), 0u) << SystemCalls::to_string(program);
  }
  calls.stop();
  meter->over = true;
  EXPECT_EQ(initiator.join(), 0);
  EXPECT_EQ(target.join(), 0);
}

constexpr std::uint32_t kSends = 500;

/// Each is answered: two processes that poll.
void send_and_answer(Side& side, Served& served, const Sge& out, bool first) {
  for (std::uint32_t i = 0; i < kSends; ++i) {
    bool sent = false, received = false, posted = false;
    while (!sent || !received) {
      if (!posted && (first || received)) {
        WEFT_REQUIRE(side.qp.post_send(out, ~std::uint64_t{0}));
        posted = true;
      }
      const auto completion = side.cq.poll();
      if (!completion) continue;
      WEFT_REQUIRE(completion->ok());
      if (completion->op == CompletionOp::kSend) {
        sent = true;
      } else {
        received = true;
        served.post_receive(completion->wr_id);
      }
    }
  }
}

TEST(NeighbourSystemCalls, none_is_made_by_either_process_for_sends_while_both_poll) {
  // B1.7: a process that the scheduler keeps from polling for milliseconds has to be woken, so one
  // round in which nobody was is enough; were there a call in each send, there would be none.
  constexpr int kRounds = 100;
  Mailbox<Meter> meter;
  const auto partner = [&](bool first) {
    return [&meter, first](const Wire& wire) {
      Side side;
      Served served(side);
      std::vector<std::byte> bytes(64);
      const auto region = *side.pd.register_memory(bytes, kAllAccess);
      side.connect(wire);
      served.post_all();
      wire.sync();
      for (int round = 1; await_round(*meter, round); ++round) {
        send_and_answer(side, served, region.sge(0, 32), first);
        meter->done.fetch_add(1);
      }
      while (!meter->over.load()) continue;
    };
  };
  Partner target(partner(false)), initiator(partner(true));
  introduce(target.wire(), initiator.wire());
  for (const Partner* one : {&target, &initiator}) one->wire().get<char>();
  for (const Partner* one : {&target, &initiator}) one->wire().put('x');
  std::uint64_t fewest = ~std::uint64_t{0};
  for (int round = 1; round <= kRounds && fewest != 0; ++round) {
    SystemCalls calls;
    ASSERT_TRUE(run_round(*meter, round, {initiator.pid(), target.pid()}, &calls));
    fewest = std::min(fewest, SystemCalls::total(calls.of_program(initiator.pid(), kHelper)) +
                                  SystemCalls::total(calls.of_program(target.pid(), kHelper)));
  }
  EXPECT_EQ(fewest, 0u) << "in " << kSends << " sends and their answers";
  meter->over = true;
  EXPECT_EQ(initiator.join(), 0);
  EXPECT_EQ(target.join(), 0);
}

// ---- windows ------------------------------------------------------------------------------------

/// A connection of the owner's, on whose send queue windows are bound; its peer uses them or not.
struct Binder {
  Binder(Side& owner, verbs::QueuePair& on)
      : side(owner),
        qp(on),
        region(*side.pd.register_memory(memory, kAllAccess)),
        first(*side.pd.allocate_window(verbs::WindowType::kType1)),
        second(*side.pd.allocate_window(verbs::WindowType::kType2)) {}

  void work(const SendRequest& request) {
    WEFT_REQUIRE(qp.post_send(request));
    for (;;) {
      const auto completion = side.cq.poll();
      if (!completion) continue;
      WEFT_REQUIRE(completion->ok());
      return;
    }
  }
  void bind(verbs::MemoryWindow& window, std::uint64_t offset, std::uint64_t length) {
    work(window.bind_request(region, offset, length, Access::kRemoteWrite | Access::kRemoteRead));
  }
  void invalidate(const verbs::MemoryWindow& window) {
    SendRequest request;
    request.op = SendOp::kLocalInvalidate;
    request.invalidate_key = window.rkey();
    work(request);
  }
  /// `use(window)` is called while it is bound.
  template <class Use>
  void cycle(Use use) {
    bind(first, 0, 64);
    use(first);
    bind(first, 128, 64);
    bind(first, 0, 0);
    bind(second, 0, 64);
    use(second);
    invalidate(second);
  }

  Side& side;
  verbs::QueuePair& qp;
  std::vector<std::byte> memory = std::vector<std::byte>(4096);
  verbs::MemoryRegion region;
  verbs::MemoryWindow first, second;
};

constexpr int kCycles = 400;

/// Two rounds of everything: the first makes what is made once.
template <class Use>
void bind_and_unbind(Meter& meter, Binder& binder, Use use) {
  const auto all = [&] {
    for (int i = 0; i < kCycles; ++i) binder.cycle([](const auto&) {});
    for (int i = 0; i < 20; ++i) binder.cycle(use);
  };
  all();
  if (!await_round(meter, 1)) return;
  all();
  meter.done.fetch_add(1);
  while (!meter.over.load()) continue;
}

void expect_none(Meter& meter, const std::vector<pid_t>& partners) {
  SystemCalls calls;
  ASSERT_TRUE(run_round(meter, 1, partners, &calls));
  const auto program = calls.of_program(partners.front(), kHelper);
  EXPECT_EQ(SystemCalls::total(program), 0u) << SystemCalls::to_string(program);
}

TEST(NeighbourSystemCalls,
     none_is_made_to_bind_rebind_unbind_and_invalidate_what_a_peer_writes_to) {
  // B4.6: work of the send queue, while another process uses the windows in turn.
  Mailbox<Meter> meter;
  Partner owner([&](const Wire& wire) {
    Side side;
    Binder binder(side, side.qp);
    side.connect(wire);
    bind_and_unbind(*meter, binder, [&](const verbs::MemoryWindow& window) {
      const std::uint32_t before = meter->used.load();
      meter->address = binder.region.address();
      meter->key = window.rkey().value;
      while (meter->used.load() == before) continue;
    });
  });
  Partner peer([&](const Wire& wire) {
    Side side;
    Worker worker(side);
    side.connect(wire);
    meter->ready.fetch_add(1);
    for (bool done = false; !meter->over.load();) {
      if (!done && meter->done.load() == 1) {
        meter->done.fetch_add(1);
        done = true;
      }
      const std::uint32_t key = meter->key.exchange(0);
      if (key == 0) continue;
      const RemoteAddress remote{meter->address.load(), RemoteKey(key)};
      WEFT_REQUIRE(side.qp.post_write(worker.out_region.sge(0, 64), remote));
      std::uint64_t completed = 0;
      drain_to(side, &completed, 1);
      meter->used.fetch_add(1);
    }
  });
  introduce(owner.wire(), peer.wire());
  expect_none(*meter, {owner.pid(), peer.pid()});
  meter->over = true;
  EXPECT_EQ(owner.join(), 0);
  EXPECT_EQ(peer.join(), 0);
}

/// Both ends in one process, with frames between them or without.
void bind_alone(Meter& meter, verbs::PathPolicy policy) {
  verbs::DeviceOptions options;
  options.path = policy;
  Side side({}, options);
  auto other = *side.pd.create_queue_pair(side.cq, side.cq);
  const auto here = side.qp.endpoint(), there = other.endpoint();
  WEFT_REQUIRE(side.qp.connect(there));
  WEFT_REQUIRE(other.connect(here));
  Binder binder(side, side.qp);
  bind_and_unbind(meter, binder, [](const auto&) {});
}

class SystemCallsAlone : public testing::TestWithParam<verbs::PathPolicy> {};

TEST_P(SystemCallsAlone, none_is_made_to_bind_rebind_unbind_and_invalidate) {
  // B4.6
  Mailbox<Meter> meter;
  Partner owner([&](const Wire&) { bind_alone(*meter, GetParam()); });
  expect_none(*meter, {owner.pid()});
  meter->over = true;
  EXPECT_EQ(owner.join(), 0);
}
INSTANTIATE_TEST_SUITE_P(Neighbours, SystemCallsAlone,
                         testing::Values(verbs::PathPolicy::kAutomatic, verbs::PathPolicy::kFramed),
                         [](const auto& policy) {
                           return policy.param == verbs::PathPolicy::kFramed ? "framed" : "direct";
                         });

}  // namespace
}  // namespace weft::test
#endif

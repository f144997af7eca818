// Who makes progress between processes of one host: the helper thread for a program that does not
// poll, and nobody but the program itself when it does.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/neighbour_side.h"

namespace weft::test {
namespace {

constexpr std::uint32_t kMessages = 1000;
constexpr verbs::QueuePairOptions kDeep{
    .limits = {.max_send_wr = kMessages, .max_recv_wr = kMessages}};

/// Waits for the channel's fd as a sleeping program does, without a single call that would poll.
bool sleeps_until_event(const verbs::CompletionChannel& channel) {
  pollfd wait{channel.fd(), POLLIN, 0};
  return ::poll(&wait, 1, 10'000) == 1;
}

/// A side whose completions come through a channel.
struct Sleeper {
  Sleeper()
      : device(Side::open()),
        pd(*device.allocate_pd()),
        channel(*device.create_channel()),
        cq(*device.create_cq(2 * kMessages, channel)),
        qp(*pd.create_queue_pair(cq, cq, kDeep)),
        bytes(std::size_t{kMessages} * 64),
        region(*pd.register_memory(bytes, kAllAccess)) {}

  void connect(const Wire& wire) {
    wire.put(qp.endpoint());
    WEFT_REQUIRE(qp.connect(wire.get<verbs::Endpoint>()));
    wire.sync();
  }
  Sge slot(std::uint64_t i) const { return region.sge(i * 64, 64); }

  verbs::Device device;
  verbs::ProtectionDomain pd;
  verbs::CompletionChannel channel;
  verbs::CompletionQueue cq;
  verbs::QueuePair qp;
  std::vector<std::byte> bytes;
  verbs::MemoryRegion region;
};

TEST(NeighbourProgress, messages_reach_a_program_that_sleeps) {
  Partner target([](const Wire& wire) {
    Sleeper side;
    side.connect(wire);
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      WEFT_REQUIRE(side.qp.post_receive(side.slot(i), i));
    }
    side.cq.request_notify();
    wire.put('r');
    WEFT_REQUIRE(sleeps_until_event(side.channel));
    wire.get<char>();  // the sender has all its completions by now
    std::vector<Completion> all(kMessages);
    WEFT_REQUIRE(side.cq.poll(all) == kMessages);
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      WEFT_REQUIRE(all[i].ok() && all[i].wr_id == i);
      WEFT_REQUIRE(is_filled({side.bytes.data() + i * 64, 64}, static_cast<unsigned>(i)));
    }
    wire.put('d');
    wire.get<char>();
  });
  Partner sender([](const Wire& wire) {
    Side side(kDeep);
    Worker worker(side, std::size_t{kMessages} * 64);
    side.connect(wire);
    wire.get<char>();
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      fill(std::span(worker.out).subspan(i * 64, 64), static_cast<unsigned>(i));
      WEFT_REQUIRE(side.qp.post_send(worker.out_region.sge(i * 64, 64), i));
    }
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      const Completion sent = side.wait();
      WEFT_REQUIRE(sent.ok() && sent.wr_id == i);
    }
    wire.put('s');
    wire.get<char>();
  });
  introduce(target.wire(), sender.wire());
  target.wire().get<char>();
  sender.wire().put('g');
  char said = 0;
  ASSERT_TRUE(sender.wire().get(&said)) << "nobody served the target";
  target.wire().put('s');
  EXPECT_TRUE(target.wire().get(&said));
  target.wire().put('d');
  EXPECT_EQ(target.join(), 0);
  sender.wire().put('d');
  EXPECT_EQ(sender.join(), 0);
}

TEST(NeighbourProgress, completions_reach_a_sender_that_sleeps) {
  // The target has no buffers at first, so nothing ends inside the post.
  Partner target([](const Wire& wire) {
    Side side;
    Served served(side);
    side.connect(wire);
    wire.put(served.offer());
    wire.get<char>();
    std::this_thread::sleep_for(50ms);
    served.post_all();
    while (served.receive(wire) != 'd') {
    }
    WEFT_REQUIRE(served.received == Served::kMessages);
  });
  Partner sender([](const Wire& wire) {
    Sleeper side;
    side.connect(wire);
    const auto offer = wire.get<Offer>();
    side.cq.request_notify();
    for (std::uint64_t i = 0; i < Served::kMessages; ++i) {
      WEFT_REQUIRE(side.qp.post_send(side.slot(i), i));
    }
    // Behind them, so that it cannot be executed at once: it tells that all of it has ended.
    WEFT_REQUIRE(side.qp.post_read(side.slot(0), offer.heap, 999));
    wire.put('p');
    bool last = false;
    for (std::uint64_t next = 0; !last;) {
      WEFT_REQUIRE(sleeps_until_event(side.channel));
      if (!side.channel.next_event()) continue;  // something has come, but no event of it
      side.cq.request_notify();
      // Not one poll of an empty queue: that would make progress by itself.
      std::array<Completion, 512> some;
      const std::size_t n = side.cq.poll(some);
      for (std::size_t i = 0; i < n; ++i) {
        WEFT_REQUIRE(some[i].ok());
        last = some[i].wr_id == 999;
        WEFT_REQUIRE(last || some[i].wr_id == next++);
      }
    }
    leave_last(wire);
  });
  introduce(target.wire(), sender.wire());
  sender.wire().put(target.wire().get<Offer>());
  char said = 0;
  ASSERT_TRUE(sender.wire().get(&said));
  target.wire().put('g');
  finish(target, sender);
}

TEST(NeighbourProgress, program_that_polls_pays_nothing_for_the_helper) {
  Partner target(run_target);
  Partner initiator([](const Wire& wire) {
    Side side;
    Worker worker(side);
    side.connect(wire);
    const auto offer = wire.get<Offer>();
    const pid_t helper = helper_of(getpid());
    WEFT_REQUIRE(helper != 0);
    const auto measure = [&](const char* what, auto work) {
      for (const auto until = now_ms() + 50; now_ms() < until;) work();
      const Usage before = usage_of(getpid(), helper);
      for (const auto until = now_ms() + 1000; now_ms() < until;) work();
      const Usage after = usage_of(getpid(), helper);
      const std::int64_t cpu_us = after.cpu_us - before.cpu_us;
      const std::int64_t switches = after.voluntary_switches - before.voluntary_switches;
      std::printf("%s: the helper used %ld us in %ld turns\n", what, cpu_us, switches);
      std::fflush(stdout);
      WEFT_REQUIRE(cpu_us < 30'000 * kSlowness);  // 3 % of a processor
      WEFT_REQUIRE(switches < 1000);
    };
    unsigned seed = 0;
    measure("traffic", [&] { WEFT_REQUIRE(worker.round(offer, ++seed)); });
    measure("empty polls", [&] { side.cq.poll(); });
    leave_last(wire);
  });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<Offer>());
  finish(target, initiator);
}

TEST(NeighbourProgress, idle_connection_costs_no_time) {
  Partner target([](const Wire& wire) {
    Side side;
    Served served(side);
    side.connect(wire);
    served.post_all();
    wire.put(served.offer());
    wire.get<char>();
  });
  Partner initiator([](const Wire& wire) {
    Side side;
    Worker worker(side);
    side.connect(wire);
    WEFT_REQUIRE(worker.round(wire.get<Offer>(), 1));
    const pid_t helper = helper_of(getpid());
    std::this_thread::sleep_for(20ms);
    const Usage before = usage_of(getpid(), helper);
    std::this_thread::sleep_for(500ms);
    const Usage after = usage_of(getpid(), helper);
    WEFT_REQUIRE(after.cpu_us - before.cpu_us < 10'000 * kSlowness);
    WEFT_REQUIRE(after.voluntary_switches - before.voluntary_switches < 50);
    leave_last(wire);
  });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<Offer>());
  finish(target, initiator);
}

}  // namespace
}  // namespace weft::test

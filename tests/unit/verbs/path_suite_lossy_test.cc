// A wire that loses and doubles frames: what the reliable connection promises still holds, and
// nothing happens twice. Only paths with frames have such a wire, and only the pipe can be told.
#include "base/random.h"
#include "obs/counters.h"
#include "support/path_suite.h"
#include "wire/opcode.h"

namespace weft::test {
namespace {

/// Time-outs of 8 ms, so that a lost last frame costs little and a slow machine is no lost frame.
QueuePairAttributes quick(Mtu mtu = Mtu::k256) {
  QueuePairAttributes attributes;
  attributes.path_mtu = mtu;
  attributes.timeout = 11;
  return attributes;
}

class PathLossy : public PathSuite {
 protected:
  /// So many frames in a hundred suffer this, the same ones in every run.
  void inject(std::uint32_t percent, Fate fate) {
    network.pipe().set_hook([=, random = base::SeededRandom(percent)](const PipeFrame&) mutable {
      return random.chance_ppm(percent * 10'000) ? fate : Fate::kDeliver;
    });
  }

  /// Sends, writes, reads and atomics in turn; each must happen once, in order.
  void run_mixed_work() {
    auto [qa, qb] = connect({}, quick());
    constexpr std::uint32_t kRounds = 30, kSize = 3000;
    Memory near(a, kSize), far(b, kSize), inbox(b, kSize), results(a, 8 * kRounds), counter(b, 8),
        word(b, 8);
    for (std::uint32_t i = 0; i < kRounds; ++i) {
      SCOPED_TRACE(i);
      near.fill(i);
      post_receive(qb, i, {inbox.sge()});
      SendRequest add{.wr_id = 4, .op = SendOp::kFetchAdd, .remote = counter.remote()};
      add.operand = 1;
      post(qa, {.wr_id = 1, .op = SendOp::kWrite, .remote = far.remote()}, {near.sge()});
      post(qa, {.wr_id = 2, .op = SendOp::kSendImmediate, .immediate = i}, {near.sge()});
      post(qa, {.wr_id = 3, .op = SendOp::kRead, .remote = far.remote()}, {near.sge()});
      post(qa, add, {results.sge(8 * i, 8)});
      SendRequest write{.wr_id = 5, .op = SendOp::kAtomicWrite, .remote = word.remote()};
      write.operand = i + 1;
      post(qa, write);
      for (std::uint64_t wr_id = 1; wr_id <= 5; ++wr_id) {
        const Completion completion = next(a.sends);
        ASSERT_TRUE(completion.ok()) << to_string(completion.status);
        ASSERT_EQ(completion.wr_id, wr_id);
      }
      const Completion received = next(b.receives);
      ASSERT_TRUE(is_done(received, i, CompletionOp::kReceive, kSize));
      ASSERT_EQ(received.immediate, i);
      ASSERT_TRUE(far.holds(i) && inbox.holds(i) && near.holds(i));
      ASSERT_EQ(results.word(8 * i), i) << "the addition happened exactly once";
      ASSERT_EQ(word.word(0), i + 1);
    }
    EXPECT_TRUE(is_quiet(b.receives));
    EXPECT_EQ(counter.word(0), kRounds);
  }

  std::uint64_t count(const Node& node, obs::Counter counter) const {
    return node.device.controller()->counters().get(counter);
  }
};
INSTANTIATE_TEST_SUITE_P(Over, PathLossy,
                         testing::Values(Way{Wire::kPipe, false}, Way{Wire::kPipe, true}),
                         way_name);

TEST_P(PathLossy, survives_losses) {
  // B2.1
  for (const std::uint32_t percent : {1u, 5u, 20u}) {
    inject(percent, Fate::kDrop);
    run_mixed_work();
  }
  EXPECT_GT(count(a, obs::Counter::kRetransmissions), 0u);
}

TEST_P(PathLossy, survives_frames_that_come_twice) {
  // B2.1
  for (const std::uint32_t percent : {5u, 50u, 100u}) {
    inject(percent, Fate::kDuplicate);
    run_mixed_work();
  }
  EXPECT_GT(count(b, obs::Counter::kDuplicates), 0u);
}

TEST_P(PathLossy, survives_the_loss_of_all_first_acknowledgements) {
  // B2.1: everything is sent twice and done once.
  std::uint32_t seen = 0;
  network.pipe().set_hook([&](const PipeFrame& frame) {
    const bool answer = frame.headers().info().operation == wire::Operation::kAcknowledge ||
                        frame.headers().info().operation == wire::Operation::kAtomicAcknowledge;
    return answer && ++seen % 2 == 1 ? Fate::kDrop : Fate::kDeliver;
  });
  run_mixed_work();
  EXPECT_GT(seen, 0u);
}

TEST_P(PathLossy, a_one_shot_key_serves_the_repetitions_of_its_operation) {
  // B4.10: one whole operation, its retransmissions included.
  constexpr Access kOnce =
      Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead | Access::kOneShot;
  for (const SendOp op : {SendOp::kWrite, SendOp::kRead}) {
    for (const bool bound : {false, true}) {
      Link link = connect({}, quick());
      Memory near(a, 20'000);
      Memory once(b, 20'000, bound ? Access::kLocalWrite | Access::kWindowBind : kOnce);
      MemoryWindow window = must(b.pd.allocate_window(WindowType::kType1));
      if (bound) {
        must(link.b.post_send(
            window.bind_request(once.region, 0, 20'000, kOnce & ~Access::kLocalWrite)));
        EXPECT_TRUE(next(b.sends).ok());
      }
      const RemoteAddress remote{once.region.address(), bound ? window.rkey() : once.region.rkey()};
      near.fill(1), once.fill(1);
      inject(10, Fate::kDrop);
      post(link.a, {.wr_id = 1, .op = op, .remote = remote}, {near.sge()});
      const Completion first = next(a.sends);
      EXPECT_TRUE(first.ok()) << to_string(op) << to_string(first.status);
      post(link.a, {.wr_id = 2, .op = op, .remote = remote}, {near.sge(0, 8)});
      network.pipe().set_hook(nullptr);
      EXPECT_TRUE(has_failed(next(a.sends), 2, CompletionStatus::kRemoteAccessError));
    }
  }
}

TEST_P(PathLossy, a_silent_wire_is_given_up) {
  // B2.1
  auto attributes = quick();
  attributes.retry_count = 3;
  auto [qa, qb] = connect({}, attributes);
  Memory near(a, 8), far(b, 8);
  network.pipe().set_hook([](const PipeFrame&) { return Fate::kDrop; });
  post(qa, {.wr_id = 1, .op = SendOp::kWrite, .remote = far.remote()}, {near.sge()});
  EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kRetryExceeded));
  EXPECT_EQ(count(a, obs::Counter::kTimeouts), 4u) << "1 try, 3 retries";
}

TEST_P(PathLossy, an_unreliable_message_with_a_hole_is_dropped_whole) {
  QueuePairOptions options;
  options.service = Service::kUnreliableConnection;
  auto [qa, qb] = connect(options, quick());
  Memory near(a, 256 * 10), inbox(b, 256 * 10);
  post_receive(qb, 50, {inbox.sge()});
  for (std::uint32_t lost = 0; lost < 10; ++lost) {
    network.pipe().set_hook([lost, at = 0u](const PipeFrame&) mutable {
      return at++ == lost ? Fate::kDrop : Fate::kDeliver;
    });
    post(qa, {.wr_id = lost, .op = SendOp::kSend}, {near.sge()});
    EXPECT_TRUE(next(a.sends).ok());
    EXPECT_TRUE(is_quiet(b.receives));
  }
  network.pipe().set_hook(nullptr);
  near.fill(9);
  post(qa, {.wr_id = 11, .op = SendOp::kSend}, {near.sge()});
  EXPECT_TRUE(is_done(next(b.receives), 50, CompletionOp::kReceive, 256 * 10));
  EXPECT_TRUE(inbox.holds(9));
}

TEST_P(PathLossy, frames_are_acknowledged_one_by_one_or_together) {
  // B2.1: selectable.
  std::uint32_t acknowledgements = 0;
  network.pipe().set_hook([&](const PipeFrame& frame) {
    acknowledgements += frame.headers().info().operation == wire::Operation::kAcknowledge;
    return Fate::kDeliver;
  });
  constexpr std::uint32_t kFrames = 40;
  Memory near(a, 256 * kFrames), far(b, 256 * kFrames);
  for (const AckPolicy policy : {AckPolicy::kEachFrame, AckPolicy::kCoalesced}) {
    auto attributes = quick();
    attributes.timeout = 14;  // no repetition is to confuse the count
    attributes.ack_policy = policy;
    auto [qa, qb] = connect({}, attributes);
    acknowledgements = 0;
    post(qa, {.wr_id = 1, .op = SendOp::kWrite, .remote = far.remote()}, {near.sge()});
    EXPECT_TRUE(next(a.sends).ok());
    if (policy == AckPolicy::kEachFrame) {
      EXPECT_EQ(acknowledgements, kFrames);
    } else {
      EXPECT_LE(acknowledgements, kFrames / 8);
    }
  }
}

}  // namespace
}  // namespace weft::test

// Frames name the memory of their payload until they are sent. In between, nobody may take that
// memory back: not another thread, and not the one that is about to send.
#include <atomic>
#include <future>
#include <optional>

#include "queue/completion_queue.h"
#include "support/path_suite.h"
#include "verbs/internals.h"

namespace weft::test {
namespace {

class UnsentFrames : public PathSuite {
 protected:
  /// Calls `then` when the first frames with payload were built by a side with this address and
  /// nothing of them has been copied.
  void when_built(const Gid& source, std::function<void()> then) {
    network.pipe().set_before_send([source, then, done = false](auto frames) mutable {
      for (const port::Outgoing& out : frames) {
        if (done || out.flow.source != source || out.frame->payload_bytes() == 0) continue;
        done = true;
        then();
      }
    });
  }

  /// What another thread makes of the region when the frames are built: true if it has lost it
  /// before they were sent.
  bool is_deregistered_too_early(const Gid& sender, MemoryRegion& region,
                                 const std::function<void()>& traffic) {
    std::atomic<bool> gone{false}, too_early{false}, built{false};
    std::future<void> other;
    when_built(sender, [&] {
      built = true;
      other = std::async(std::launch::async, [&] {
        must(region.deregister());
        gone = true;
      });
      // Broken, it takes microseconds; right, it cannot end however long this waits.
      for (int i = 0; i < 50 && !gone; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      too_early = gone.load();
    });
    traffic();
    EXPECT_TRUE(wait_until([&] { return built.load(); }));
    other.wait();
    return too_early;
  }
};
INSTANTIATE_TEST_SUITE_P(Over, UnsentFrames, testing::Values(Way{Wire::kPipe, false}), way_name);

TEST_P(UnsentFrames, keep_the_region_that_they_send) {
  // B4.9
  auto [qa, qb] = connect();
  Memory from(a, 40'000), to(b, 40'000);
  EXPECT_FALSE(is_deregistered_too_early(a.device.address(), from.region, [&, qp = &qa] {
    post(*qp, {.op = SendOp::kWrite, .remote = to.remote()}, {from.sge()});
  }));
}

TEST_P(UnsentFrames, keep_every_region_of_a_list) {
  auto [qa, qb] = connect({.limits = {.max_send_sge = 4}});
  Memory first(a, 64), second(a, 64), last(a, 64), to(b, 4096);
  EXPECT_FALSE(is_deregistered_too_early(a.device.address(), second.region, [&, qp = &qa] {
    post(*qp, {.op = SendOp::kWrite, .remote = to.remote()},
         {first.sge(), second.sge(), last.sge()});
  }));
}

TEST_P(UnsentFrames, keep_the_regions_of_all_messages_that_leave_together) {
  auto [qa, qb] = connect();
  Memory first(a, 64), second(a, 64), into(b, 64);
  for (std::uint64_t i = 0; i < 2; ++i) post_receive(qb, i, {into.sge()});
  EXPECT_FALSE(is_deregistered_too_early(a.device.address(), first.region, [&, qp = &qa] {
    const Sge one = first.sge(), other = second.sge();
    const std::array<SendRequest, 2> both{SendRequest{.sges = {&one, 1}},
                                          SendRequest{.sges = {&other, 1}}};
    std::size_t posted = 0;
    must(qp->post_send(both, &posted));
  }));
}

TEST_P(UnsentFrames, keep_the_region_that_a_peer_reads) {
  auto [qa, qb] = connect();
  Memory from(b, 40'000), to(a, 40'000);
  EXPECT_FALSE(is_deregistered_too_early(b.device.address(), from.region, [&, qp = &qa] {
    post(*qp, {.op = SendOp::kRead, .remote = from.remote()}, {to.sge()});
    pump();
  }));
}

TEST_P(UnsentFrames, keep_the_first_region_when_a_peer_reads_several) {
  auto [qa, qb] = connect();
  Memory from(b, 64), other(b, 64), to(a, 128);
  EXPECT_FALSE(is_deregistered_too_early(b.device.address(), from.region, [&, qp = &qa] {
    const Sge into = to.sge(0, 64), behind = to.sge(64, 64);
    const std::array<SendRequest, 2> both{
        SendRequest{.op = SendOp::kRead, .sges = {&into, 1}, .remote = from.remote()},
        SendRequest{.op = SendOp::kRead, .sges = {&behind, 1}, .remote = other.remote()}};
    std::size_t posted = 0;
    must(qp->post_send(both, &posted));
    b.device.controller()->poll();
  }));
}

TEST_P(UnsentFrames, keep_a_region_although_the_next_request_is_refused) {
  // The second read has a key that nobody has: refusing it must not give up the first one's.
  auto [qa, qb] = connect();
  Memory from(b, 64), to(a, 128);
  EXPECT_FALSE(is_deregistered_too_early(b.device.address(), from.region, [&, qp = &qa] {
    const Sge into = to.sge(0, 64), behind = to.sge(64, 64);
    RemoteAddress nowhere = from.remote();
    nowhere.key.value ^= 0x5A00;
    const std::array<SendRequest, 2> both{
        SendRequest{.op = SendOp::kRead, .sges = {&into, 1}, .remote = from.remote()},
        SendRequest{.op = SendOp::kRead, .sges = {&behind, 1}, .remote = nowhere}};
    std::size_t posted = 0;
    must(qp->post_send(both, &posted));
    b.device.controller()->poll();
  }));
}

/// The same thread: it has answers to send and, behind a read that has just completed, local work
/// that takes away what they read.
class UnsentAnswers : public UnsentFrames {
 protected:
  /// True if the work had completed when the answers were built.
  bool is_done_too_early(const std::function<SendRequest(MemoryWindow&)>& take_away,
                         WindowType type) {
    auto [qa, qb] = connect({.signal_all = true});
    Memory secret(b, 4096), own(b, 8), there(a, 8), copy(a, 4096);
    MemoryWindow window = must(b.pd.allocate_window(type));
    must(qb.post_send(window.bind_request(secret.region, 0, 4096, Access::kRemoteRead)));
    EXPECT_EQ(next(b.sends).status, kDone);
    const RemoteKey key = window.rkey();
    post(qb, {.wr_id = 1, .op = SendOp::kRead, .remote = there.remote()}, {own.sge()});
    SendRequest request = take_away(window);
    request.wr_id = 2;
    must(qb.post_send(request));
    // What the work waits for and the peer's read arrive in one round.
    a.device.controller()->poll();
    post(qa, {.op = SendOp::kRead, .remote = {secret.region.address(), key}}, {copy.sge()});
    bool built = false, too_early = false;
    when_built(b.device.address(), [&] {
      built = true;
      // Looks without making progress: the program may, in another thread, at any time.
      queue::CompletionQueue& cq = verbs::Internals::of(b.sends).queue;
      std::array<Completion, 4> some;
      const std::size_t n = cq.poll(some);
      for (std::size_t i = 0; i < n; ++i) too_early |= some[i].wr_id == 2;
    });
    b.device.controller()->poll();
    EXPECT_TRUE(built) << "the answers were not sent in this round";
    network.pipe().set_before_send({});
    pump_a_while();
    return too_early;
  }
};
INSTANTIATE_TEST_SUITE_P(Over, UnsentAnswers, testing::Values(Way{Wire::kPipe, false}), way_name);

TEST_P(UnsentAnswers, leave_before_a_local_invalidate_of_what_they_read) {
  EXPECT_FALSE(is_done_too_early(
      [](MemoryWindow& window) {
        SendRequest invalidate{.op = SendOp::kLocalInvalidate};
        invalidate.invalidate_key = window.rkey();
        return invalidate;
      },
      WindowType::kType2));
}

TEST_P(UnsentAnswers, leave_before_a_rebind_of_the_window_that_they_read_through) {
  Memory other(b, 4096);
  EXPECT_FALSE(is_done_too_early(
      [&](MemoryWindow& window) {
        SendRequest bind = window.bind_request(other.region, 0, 4096, Access::kRemoteRead);
        bind.flags = bind.flags | SendFlags::kFence;
        return bind;
      },
      WindowType::kType1));
}

TEST_P(UnsentAnswers, that_are_refused_do_not_hold_up_the_local_work_behind_them) {
  // A late copy of a read whose key is gone since: no answer is owed, and none is sent.
  std::optional<PipeFrame> late;
  network.pipe().set_hook([&](const PipeFrame& frame) {
    if (frame.headers().bth.opcode == wire::Opcode::kRcReadRequest &&
        frame.flow.destination == b.device.address()) {
      late = frame;
    }
    return Fate::kDeliver;
  });
  auto [qa, qb] = connect({.signal_all = true});
  Memory secret(b, 64), own(b, 8), there(a, 8), copy(a, 64);
  MemoryWindow window = must(b.pd.allocate_window(WindowType::kType1));
  const auto bind = [&](std::uint64_t wr_id, SendFlags flags) {
    SendRequest request = window.bind_request(secret.region, 0, 64, Access::kRemoteRead);
    request.wr_id = wr_id;
    request.flags = request.flags | flags;
    must(qb.post_send(request));
  };
  bind(1, SendFlags::kNone);
  EXPECT_EQ(next(b.sends).status, kDone);
  post(qa, {.op = SendOp::kRead, .remote = {secret.region.address(), window.rkey()}}, {copy.sge()});
  EXPECT_EQ(next(a.sends).status, kDone);
  bind(2, SendFlags::kNone);
  EXPECT_EQ(next(b.sends).status, kDone);
  post(qb, {.wr_id = 3, .op = SendOp::kRead, .remote = there.remote()}, {own.sge()});
  bind(4, SendFlags::kFence);
  a.device.controller()->poll();  // the answer that the work waits for is under way
  ASSERT_TRUE(late.has_value());
  network.pipe().inject(*late);
  b.device.controller()->poll();
  // Both are done in that round; a look that makes progress would make up for it.
  std::array<Completion, 4> done;
  ASSERT_EQ(verbs::Internals::of(b.sends).queue.poll(done), 2u);
  EXPECT_TRUE(is_done(done[0], 3, CompletionOp::kRead, 8));
  EXPECT_EQ(done[1].wr_id, 4u);
}

}  // namespace
}  // namespace weft::test

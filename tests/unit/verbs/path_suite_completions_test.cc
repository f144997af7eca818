// Which work gives a completion, when, and who is told, over every path.
#include <poll.h>

#include <array>
#include <set>

#include "support/path_suite.h"

namespace weft::test {
namespace {

class PathCompletions : public PathSuite {
 protected:
  static bool readable(int fd) {
    pollfd wait{fd, POLLIN, 0};
    return ::poll(&wait, 1, 0) == 1;
  }
};
INSTANTIATE_TEST_SUITE_P(Over, PathCompletions, testing::ValuesIn(all_ways()), way_name);

TEST_P(PathCompletions, unsignaled_work_is_done_without_a_word) {
  auto [qa, qb] = connect();
  Memory from(a, 64), to(b, 64);
  from.fill(1);
  for (std::uint32_t i = 0; i < 7; ++i) {
    post(qa,
         {.wr_id = i, .op = SendOp::kWrite, .flags = SendFlags::kNone, .remote = to.remote(i * 8)},
         {from.sge(i * 8, 8)});
  }
  post(qa, {.wr_id = 7, .op = SendOp::kWrite, .remote = to.remote(56)}, {from.sge(56, 8)});
  EXPECT_TRUE(is_done(next(a.sends), 7, CompletionOp::kWrite, 8));
  EXPECT_TRUE(to.holds(1));
  EXPECT_TRUE(is_quiet(a.sends));
}

TEST_P(PathCompletions, unsignaled_work_that_fails_is_told) {
  auto [qa, qb] = connect();
  Memory from(a, 8), to(b, 8);
  post(qa, {.wr_id = 1, .op = SendOp::kWrite, .flags = SendFlags::kNone, .remote = to.remote(1)},
       {from.sge()});
  EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kRemoteAccessError));
}

TEST_P(PathCompletions, a_queue_pair_that_signals_all_overrules_the_flags) {
  QueuePairOptions options;
  options.signal_all = true;
  auto [qa, qb] = connect(options);
  Memory from(a, 8), to(b, 8);
  for (std::uint64_t i = 0; i < 3; ++i) {
    post(qa, {.wr_id = i, .op = SendOp::kWrite, .flags = SendFlags::kNone, .remote = to.remote()},
         {from.sge()});
  }
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(is_done(next(a.sends), i, CompletionOp::kWrite, 8));
  }
}

TEST_P(PathCompletions, inline_data_may_be_overwritten_right_after_the_post) {
  QueuePairOptions options;
  options.limits.max_inline_bytes = 100;
  auto [qa, qb] = connect(options);
  Memory to(b, 200), inbox(b, 100);
  post_receive(qb, 50, {inbox.sge()});
  std::array<std::byte, 100> scratch;
  const auto refill = [&](std::uint32_t seed) {
    for (std::size_t i = 0; i < scratch.size(); ++i) scratch[i] = pattern(seed, i);
  };
  // The bytes are copied at once, so they need no key and may come in any number of pieces.
  const auto address = reinterpret_cast<std::uint64_t>(scratch.data());
  const SendFlags flags = SendFlags::kSignaled | SendFlags::kInline;
  refill(2);
  post(qa, {.wr_id = 1, .op = SendOp::kWrite, .flags = flags, .remote = to.remote()},
       {{address, 60, {}}, {address + 60, 40, {}}});
  refill(3);
  post(qa, {.wr_id = 2, .op = SendOp::kSend, .flags = flags}, {{address, 100, {}}});
  refill(4);
  post(qa, {.wr_id = 3, .op = SendOp::kWrite, .flags = flags, .remote = to.remote(100)},
       {{address, 100, {}}});
  refill(5);
  for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(next(a.sends).wr_id, i);
  EXPECT_TRUE(is_done(next(b.receives), 50, CompletionOp::kReceive, 100));
  EXPECT_TRUE(to.holds(2, 0, 100));
  EXPECT_TRUE(to.holds(4, 100, 100));
  EXPECT_TRUE(inbox.holds(3));
}

TEST_P(PathCompletions, long_inline_data_arrives_among_short) {
  constexpr std::uint32_t kMost = 512;
  constexpr std::array<std::uint32_t, 7> kSizes{8, 64, 65, 256, 0, kMost, 16};
  QueuePairOptions options;
  options.limits.max_inline_bytes = kMost;
  auto [qa, qb] = connect(options);
  Memory to(b, kMost * kSizes.size());
  std::array<std::byte, kMost> scratch;
  const auto address = reinterpret_cast<std::uint64_t>(scratch.data());
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    post_receive(qb, 50 + i, {to.sge(kMost * i, kMost)});
  }
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    for (std::size_t j = 0; j < kMost; ++j) {
      scratch[j] = pattern(static_cast<std::uint32_t>(i + 1), j);
    }
    post(qa, {.wr_id = i, .flags = SendFlags::kSignaled | SendFlags::kInline},
         {{address, kSizes[i], {}}});
  }
  scratch.fill(std::byte{0xEE});
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    EXPECT_EQ(next(a.sends).wr_id, i);
    EXPECT_TRUE(is_done(next(b.receives), 50 + i, CompletionOp::kReceive, kSizes[i]));
    EXPECT_TRUE(to.holds(static_cast<std::uint32_t>(i + 1), kMost * i, kSizes[i]));
  }
}

TEST_P(PathCompletions, several_queue_pairs_share_one_completion_queue) {
  // B1.4: the entries name the queue pair.
  const CompletionQueue shared = must(b.device.create_cq(256));
  constexpr std::size_t kPairs = 5;
  Memory from(a, 8), to(b, 8 * kPairs);
  std::vector<Link> links;
  for (std::size_t i = 0; i < kPairs; ++i) {
    Link link{a.create(), must(b.pd.create_queue_pair(shared, shared))};
    reconnect(link);
    post_receive(link.b, 100 + i, {to.sge(8 * i, 8)});
    links.push_back(std::move(link));
  }
  for (std::size_t i = 0; i < kPairs; ++i) {
    post(links[i].a, {.wr_id = i, .op = SendOp::kSendImmediate, .immediate = 7}, {from.sge()});
    post(links[i].b, {.wr_id = 200 + i, .op = SendOp::kRead, .remote = from.remote()},
         {to.sge(8 * i, 8)});
  }
  std::set<std::pair<std::uint32_t, std::uint64_t>> seen, wanted;
  for (std::size_t i = 0; i < kPairs; ++i) {
    wanted.emplace(links[i].b.number().value, 100 + i);
    wanted.emplace(links[i].b.number().value, 200 + i);
  }
  for (std::size_t i = 0; i < 2 * kPairs; ++i) {
    const Completion completion = next(shared);
    EXPECT_TRUE(completion.ok());
    seen.emplace(completion.qpn.value, completion.wr_id);
  }
  EXPECT_EQ(seen, wanted);
}

TEST_P(PathCompletions, an_armed_queue_makes_its_channel_readable_once) {
  const auto channel = must(b.device.create_channel());
  const CompletionQueue cq = must(b.device.create_cq(16, channel));
  Link link{a.create(), must(b.pd.create_queue_pair(b.sends, cq))};
  reconnect(link);
  for (std::uint64_t i = 0; i < 3; ++i) post_receive(link.b, 50 + i);
  post(link.a, {.wr_id = 1, .op = SendOp::kSend});
  EXPECT_TRUE(is_done(next(cq), 50, CompletionOp::kReceive, 0));
  EXPECT_FALSE(readable(channel.fd())) << "nobody asked";
  cq.request_notify();
  post(link.a, {.wr_id = 2, .op = SendOp::kSend});
  EXPECT_EQ(must(channel.wait(kPatience)), cq.number());
  EXPECT_TRUE(is_done(next(cq), 51, CompletionOp::kReceive, 0));
  post(link.a, {.wr_id = 3, .op = SendOp::kSend});
  EXPECT_TRUE(is_done(next(cq), 52, CompletionOp::kReceive, 0));
  EXPECT_FALSE(readable(channel.fd())) << "one request, one event";
}

TEST_P(PathCompletions, a_queue_armed_for_solicited_events_sleeps_through_the_others) {
  const auto channel = must(b.device.create_channel());
  const CompletionQueue cq = must(b.device.create_cq(16, channel));
  Link link{a.create(), must(b.pd.create_queue_pair(b.sends, cq))};
  reconnect(link);
  Memory from(a, 8), to(b, 8);
  for (std::uint64_t i = 0; i < 3; ++i) post_receive(link.b, 50 + i, {to.sge()});
  cq.request_notify(true);
  post(link.a, {.wr_id = 1, .op = SendOp::kSend}, {from.sge()});
  EXPECT_TRUE(is_done(next(cq), 50, CompletionOp::kReceive, 8));
  EXPECT_FALSE(readable(channel.fd()));
  const SendFlags solicited = SendFlags::kSignaled | SendFlags::kSolicited;
  post(link.a, {.wr_id = 2, .op = SendOp::kSend, .flags = solicited}, {from.sge()});
  EXPECT_TRUE(wait_until([&] { return readable(channel.fd()); }));
  EXPECT_EQ(channel.next_event(), cq.number());
  EXPECT_TRUE(is_done(next(cq), 51, CompletionOp::kReceive, 8));
  cq.request_notify(true);
  post(link.a,
       {.wr_id = 3, .op = SendOp::kWriteImmediate, .flags = solicited, .remote = to.remote()},
       {from.sge()});
  EXPECT_TRUE(wait_until([&] { return readable(channel.fd()); }));
  EXPECT_TRUE(is_done(next(cq), 52, CompletionOp::kReceiveWriteImmediate, 8));
}

TEST_P(PathCompletions, a_failed_completion_wakes_also_those_who_wait_for_solicited_ones) {
  const auto channel = must(a.device.create_channel());
  const CompletionQueue cq = must(a.device.create_cq(16, channel));
  Link link{must(a.pd.create_queue_pair(cq, cq)), b.create()};
  reconnect(link);
  Memory from(a, 8), to(b, 8);
  cq.request_notify(true);
  post(link.a, {.wr_id = 1, .op = SendOp::kWrite, .remote = to.remote()}, {from.sge()});
  EXPECT_TRUE(is_done(next(cq), 1, CompletionOp::kWrite, 8));
  EXPECT_FALSE(readable(channel.fd()));
  post(link.a, {.wr_id = 2, .op = SendOp::kWrite, .remote = to.remote(1)}, {from.sge()});
  EXPECT_TRUE(wait_until([&] { return readable(channel.fd()); }));
  EXPECT_TRUE(has_failed(next(cq), 2, CompletionStatus::kRemoteAccessError));
}

TEST_P(PathCompletions, a_completion_too_many_is_reported) {
  const CompletionQueue tiny = must(a.device.create_cq(2));
  Link link{must(a.pd.create_queue_pair(tiny, tiny)), b.create()};
  reconnect(link);
  Memory from(a, 8), to(b, 8);
  for (std::uint64_t i = 0; i < 3; ++i) {
    post(link.a, {.wr_id = i, .op = SendOp::kWrite, .remote = to.remote()}, {from.sge()});
  }
  const AsyncEvent event = next_event(a);
  EXPECT_EQ(event.kind, AsyncEventKind::kCompletionQueueOverrun);
  EXPECT_EQ(event.number, tiny.number());
}

}  // namespace
}  // namespace weft::test

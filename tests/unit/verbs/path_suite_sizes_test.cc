// Messages of every size, in pieces of every size, over every path.
#include <algorithm>
#include <array>

#include "obs/counters.h"
#include "support/path_suite.h"

namespace weft::test {
namespace {

constexpr std::array kMtus{Mtu::k256, Mtu::k512, Mtu::k1024, Mtu::k2048, Mtu::k4096};

QueuePairAttributes with_mtu(Mtu mtu) {
  QueuePairAttributes attributes;
  attributes.path_mtu = mtu;
  return attributes;
}

QueuePairOptions with_sges(std::uint32_t most, Service service = Service::kReliableConnection) {
  QueuePairOptions options;
  options.service = service;
  options.limits.max_send_sge = options.limits.max_recv_sge = most;
  return options;
}

/// Cuts all of the memory into `count` pieces of odd sizes; the last one takes what is left.
std::vector<Sge> cut(const Memory& memory, std::size_t count, std::uint32_t first,
                     std::uint32_t step) {
  std::vector<Sge> pieces;
  std::uint64_t offset = 0;
  const std::uint64_t all = memory.bytes.size();
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const auto length = std::min<std::uint64_t>(first + i * step, all - offset);
    pieces.push_back(memory.sge(offset, static_cast<std::uint32_t>(length)));
    offset += length;
  }
  pieces.push_back(memory.sge(offset, static_cast<std::uint32_t>(all - offset)));
  return pieces;
}

class PathSizes : public PathSuite {};
INSTANTIATE_TEST_SUITE_P(Over, PathSizes, testing::ValuesIn(all_ways()), way_name);

TEST_P(PathSizes, messages_around_the_mtu_and_a_mebibyte_arrive_whole) {
  // B2.6
  constexpr std::uint32_t kMebibyte = 1 << 20;
  Memory near(a, kMebibyte), far(b, kMebibyte + 1);
  for (const Mtu mtu : kMtus) {
    auto [qa, qb] = connect({}, with_mtu(mtu));
    std::uint32_t seed = bytes(mtu);
    const bool widest = mtu == Mtu::k256 || mtu == Mtu::k4096;
    for (const std::uint32_t size : {0u, 1u, bytes(mtu) - 1, bytes(mtu), bytes(mtu) + 1,
                                     3 * bytes(mtu), widest ? kMebibyte : 50'001}) {
      SCOPED_TRACE(testing::Message() << "mtu " << bytes(mtu) << ", " << size << " bytes");
      for (const SendOp op : {SendOp::kSend, SendOp::kWrite, SendOp::kRead}) {
        ++seed;
        Memory& source = op == SendOp::kRead ? far : near;
        Memory& sink = op == SendOp::kRead ? near : far;
        source.fill(seed);
        std::fill(sink.bytes.begin(), sink.bytes.end(), std::byte{0});
        if (op == SendOp::kSend) post_receive(qb, 50, {far.sge()});
        post(qa, {.wr_id = seed, .op = op, .remote = far.remote()}, {near.sge(0, size)});
        const Completion completion = next(a.sends);
        ASSERT_TRUE(completion.ok()) << to_string(completion.status);
        ASSERT_EQ(completion.byte_count, size);
        if (op == SendOp::kSend) {
          ASSERT_TRUE(is_done(next(b.receives), 50, CompletionOp::kReceive, size));
        }
        ASSERT_TRUE(sink.holds(seed, 0, size));
        ASSERT_TRUE(sink.is_zero(size, sink.bytes.size() - size));
      }
    }
  }
}

TEST_P(PathSizes, odd_pieces_that_straddle_frames_arrive_whole) {
  // B2.6
  for (const Mtu mtu : kMtus) {
    SCOPED_TRACE(testing::Message() << "mtu " << bytes(mtu));
    auto [qa, qb] = connect(with_sges(32), with_mtu(mtu));
    const std::uint32_t size = 5 * bytes(mtu) + 77;
    Memory near(a, size), far(b, size);
    near.fill(bytes(mtu));
    const auto gather = cut(near, 32, 1, bytes(mtu) / 128 * 2 + 1);
    const auto scatter = cut(far, 29, bytes(mtu) / 32 + 1, 14);
    must(qb.post_receive({50, scatter}));
    must(qa.post_send(SendRequest{.wr_id = 1, .op = SendOp::kSend, .sges = gather}));
    EXPECT_TRUE(is_done(next(b.receives), 50, CompletionOp::kReceive, size));
    EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kSend, size));
    EXPECT_TRUE(far.holds(bytes(mtu)));

    near.fill(1);
    must(qa.post_send(
        SendRequest{.wr_id = 2, .op = SendOp::kWrite, .sges = gather, .remote = far.remote()}));
    EXPECT_TRUE(is_done(next(a.sends), 2, CompletionOp::kWrite, size));
    EXPECT_TRUE(far.holds(1));

    far.fill(2);
    must(qa.post_send(
        SendRequest{.wr_id = 3, .op = SendOp::kRead, .sges = gather, .remote = far.remote()}));
    EXPECT_TRUE(is_done(next(a.sends), 3, CompletionOp::kRead, size));
    EXPECT_TRUE(near.holds(2));
  }
}

TEST_P(PathSizes, empty_pieces_between_others_do_no_harm) {
  auto [qa, qb] = connect(with_sges(6));
  Memory near(a, 100), far(b, 100);
  near.fill(3);
  post_receive(qb, 50, {far.sge(0, 0), far.sge(0, 33), far.sge(33, 0), far.sge(33, 67)});
  post(qa, {.wr_id = 1},
       {near.sge(0, 0), near.sge(0, 50), near.sge(50, 0), near.sge(50, 50), near.sge(0, 0)});
  EXPECT_TRUE(is_done(next(b.receives), 50, CompletionOp::kReceive, 100));
  EXPECT_TRUE(far.holds(3));
}

TEST_P(PathSizes, a_thousand_messages_arrive_in_order_and_once) {
  // B2.1
  QueuePairOptions options;
  options.limits.max_send_wr = options.limits.max_recv_wr = 1024;
  auto [qa, qb] = connect(options, with_mtu(Mtu::k256));
  Memory near(a, 64 * 1024), far(b, 1000 * 600);
  near.fill(4);
  const auto size_of = [](std::uint32_t i) { return i * 37 % 600; };
  for (std::uint32_t i = 0; i < 1000; ++i) post_receive(qb, i, {far.sge(i * 600, 600)});
  for (std::uint32_t i = 0; i < 1000; ++i) {
    post(qa, {.wr_id = i, .op = SendOp::kSendImmediate, .immediate = i}, {near.sge(i, size_of(i))});
  }
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const Completion completion = next(b.receives);
    ASSERT_TRUE(is_done(completion, i, CompletionOp::kReceive, size_of(i)));
    ASSERT_EQ(completion.immediate, i);
    ASSERT_TRUE(far.holds(4, i * 600, size_of(i), i));
  }
  for (std::uint32_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(is_done(next(a.sends), i, CompletionOp::kSend, size_of(i)));
  }
  EXPECT_TRUE(is_quiet(b.receives));
}

TEST_P(PathSizes, sequence_numbers_wrap_in_the_middle_of_a_message) {
  // B2.1: 24 bits, and each of these messages crosses their end.
  Memory near(a, 64 * 256 + 5), far(b, 64 * 256 + 5);
  for (const SendOp op : {SendOp::kSend, SendOp::kWrite, SendOp::kRead}) {
    Link link{a.create(), b.create()};
    const Psn first(kMask24 - 20);
    QueuePairAttributes attributes = with_mtu(Mtu::k256);
    attributes.send_psn = first;
    const Endpoint end_a{a.device.address(), link.a.number(), first};
    const Endpoint end_b{b.device.address(), link.b.number(), first};
    connect_at(link.a, end_b, attributes);
    connect_at(link.b, end_a, attributes);
    for (std::uint32_t round = 0; round < 2; ++round) {
      Memory& source = op == SendOp::kRead ? far : near;
      Memory& sink = op == SendOp::kRead ? near : far;
      source.fill(round + 40);
      if (op == SendOp::kSend) post_receive(link.b, 50, {far.sge()});
      post(link.a, {.wr_id = 1, .op = op, .remote = far.remote()}, {near.sge()});
      const Completion completion = next(a.sends);
      EXPECT_TRUE(completion.ok()) << to_string(completion.status);
      if (op == SendOp::kSend) {
        EXPECT_TRUE(next(b.receives).ok());
      }
      EXPECT_TRUE(sink.holds(round + 40));
    }
  }
}

TEST_P(PathSizes, each_frame_acknowledged_by_itself_gives_the_same_result) {
  // B2.1: acknowledged each one, or cumulatively: selectable.
  QueuePairAttributes attributes = with_mtu(Mtu::k512);
  attributes.ack_policy = AckPolicy::kEachFrame;
  auto [qa, qb] = connect({}, attributes);
  Memory near(a, 100'000), far(b, 100'000);
  near.fill(6);
  post(qa, {.wr_id = 1, .op = SendOp::kWrite, .remote = far.remote()}, {near.sge()});
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kWrite, 100'000));
  EXPECT_TRUE(far.holds(6));
}

/// Nothing happens but by the test's own calls.
class PathBudget : public PathSuite {
 protected:
  PathBudget() : PathSuite(DeviceShape{.helper = false}) {}
};
INSTANTIATE_TEST_SUITE_P(Over, PathBudget, testing::ValuesIn(all_ways()), way_name);

/// Between neighbours a helper thread goes on with what post left, sometimes before the test has
/// looked: a post that copies too much does so every time, so one look in many has to be in time.
template <class Attempt>
bool one_in_many(Attempt attempt) {
  for (int i = 0; i < 50; ++i) {
    if (attempt()) return true;
  }
  return false;
}

/// Looks at a few places only, so as to be done before others have got there.
bool is_untouched(const Memory& memory, std::size_t from) {
  for (std::size_t at = from; at < memory.bytes.size(); at += 128 * 1024) {
    if (!memory.is_zero(at, 16)) return false;
  }
  return true;
}

TEST_P(PathBudget, posting_a_large_message_copies_at_most_256_kib) {
  constexpr std::uint32_t kInline = 256 * 1024, kSize = 1 << 20;
  auto [qa, qb] = connect();
  Memory near(a, kSize), far(b, kSize);
  near.fill(7);
  const auto sent = [&] { return a.device.controller()->counters().get(obs::Counter::kBytesSent); };
  for (const SendOp op : {SendOp::kWrite, SendOp::kSend}) {
    EXPECT_TRUE(one_in_many([&, &qa = qa, &qb = qb] {
      const std::uint64_t before = sent();
      std::fill(far.bytes.begin(), far.bytes.end(), std::byte{0});
      if (op == SendOp::kSend) post_receive(qb, 50, {far.sge()});
      post(qa, {.wr_id = 1, .op = op, .remote = far.remote()}, {near.sge()});
      const bool rest_is_left = sent() - before <= kInline && is_untouched(far, kInline);
      EXPECT_TRUE(next(a.sends).ok());
      if (op == SendOp::kSend) {
        EXPECT_TRUE(is_done(next(b.receives), 50, CompletionOp::kReceive, kSize));
      }
      EXPECT_TRUE(far.holds(7));
      return rest_is_left;
    })) << "the rest is for poll to do";
  }
}

TEST_P(PathBudget, posting_a_large_read_copies_at_most_256_kib) {
  constexpr std::uint32_t kInline = 256 * 1024, kSize = 1 << 20;
  auto [qa, qb] = connect();
  Memory near(a, kSize), far(b, kSize);
  far.fill(8);
  EXPECT_TRUE(one_in_many([&, &qa = qa] {
    std::fill(near.bytes.begin(), near.bytes.end(), std::byte{0});
    post(qa, {.wr_id = 1, .op = SendOp::kRead, .remote = far.remote()}, {near.sge()});
    const bool rest_is_left = is_untouched(near, kInline);
    EXPECT_TRUE(next(a.sends).ok());
    EXPECT_TRUE(near.holds(8));
    return rest_is_left;
  })) << "the rest is for poll to do";
}

}  // namespace
}  // namespace weft::test

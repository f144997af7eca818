// The order in which work between processes happens: behind a send that fails nothing has
// happened, completions come as posted, and a receiver that is not ready is waited for.
#include <gtest/gtest.h>

#include <array>
#include <tuple>
#include <vector>

#include "support/guarded_memory.h"
#include "support/mailbox.h"
#include "support/neighbour_side.h"

namespace weft::test {
namespace {

constexpr std::uint32_t kMessageBytes = 300 * 1024;
constexpr std::byte kUnwritten{0x11}, kWritten{0x22};

SendRequest request_of(SendOp op, const Sge& sge, const RemoteAddress& remote, std::uint64_t id) {
  SendRequest request;
  request.op = op;
  request.sges = {&sge, 1};
  request.remote = remote;
  request.wr_id = id;
  return request;
}

// ---- behind a failure -------------------------------------------------------------------------

/// A target with one receive buffer of so many bytes, or none.
void run_untouched_target(const Wire& wire, MemoryKind kind, std::uint32_t receive_bytes) {
  Side side;
  const GuardedMemory memory(kind, kMessageBytes), inbox(MemoryKind::kHeap, 64);
  memory.fill(kUnwritten);
  const auto region = memory.grant(side.pd, kAllAccess);
  const auto inbox_region = inbox.grant(side.pd, kAllAccess);
  side.connect(wire);
  if (receive_bytes > 0) WEFT_REQUIRE(side.qp.post_receive(inbox_region.sge(0, receive_bytes)));
  wire.put(region.remote());
  while (!said_something(wire)) side.cq.poll({});
  wire.get<char>();
  WEFT_REQUIRE(memory.is_all(kUnwritten) && memory.guards_intact() && inbox.guards_intact());
}

/// A send that must fail, and behind it writes of all sizes, an atomic and a read.
void run_failing_initiator(const Wire& wire) {
  Side side;
  const GuardedMemory memory(MemoryKind::kHeap, kMessageBytes);
  memory.fill(kWritten);
  const auto region = memory.grant(side.pd, kAllAccess);
  wire.put(side.qp.endpoint());
  WEFT_REQUIRE(side.qp.connect(wire.get<verbs::Endpoint>(), {.min_rnr_timer = 1, .rnr_retry = 2}));
  wire.sync();
  const auto remote = wire.get<RemoteAddress>();
  const std::array<std::uint32_t, 6> lengths{8, 64, 4096, 4097, 65'536, kMessageBytes};
  std::vector<Sge> sges{region.sge(0, 64)};
  std::vector<SendRequest> requests;
  for (const std::uint32_t n : lengths) sges.push_back(region.sge(0, n));
  sges.push_back(region.sge(0, 8));
  for (std::size_t i = 0; i < sges.size(); ++i) {
    const SendOp op = i == 0                ? SendOp::kSend
                      : i <= lengths.size() ? SendOp::kWrite
                                            : SendOp::kFetchAdd;
    requests.push_back(request_of(op, sges[i], remote, i));
  }
  std::size_t posted = 0;
  WEFT_REQUIRE(side.qp.post_send(requests, &posted));
  wire.put(side.wait().status);
  for (std::size_t i = 1; i < requests.size(); ++i) {
    const Completion completion = side.wait();
    WEFT_REQUIRE(completion.wr_id == i && completion.status == CompletionStatus::kFlushed);
  }
}

class BehindAFailedSend : public testing::TestWithParam<std::tuple<MemoryKind, std::uint32_t>> {};

TEST_P(BehindAFailedSend, nothing_has_happened) {
  // No receive buffer at all, or one that is too short.
  const auto [kind, receive_bytes] = GetParam();
  Partner target(
      [k = kind, n = receive_bytes](const Wire& wire) { run_untouched_target(wire, k, n); });
  Partner initiator(run_failing_initiator);
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<RemoteAddress>());
  CompletionStatus status{};
  ASSERT_TRUE(initiator.wire().get(&status));
  EXPECT_EQ(to_string(status),
            to_string(receive_bytes == 0 ? CompletionStatus::kRnrRetryExceeded
                                         : CompletionStatus::kRemoteInvalidRequest));
  EXPECT_EQ(initiator.join(), 0);
  target.wire().put('c');
  EXPECT_EQ(target.join(), 0);
}
INSTANTIATE_TEST_SUITE_P(Neighbours, BehindAFailedSend,
                         testing::Combine(testing::Values(MemoryKind::kHeap, MemoryKind::kArena),
                                          testing::Values(0u, 63u)));

// ---- completions ------------------------------------------------------------------------------

class NeighbourOrder : public testing::TestWithParam<MemoryKind> {};

/// Receives messages with numbers and checks, at each, the number that was written before it.
void run_counting_target(const Wire& wire, MemoryKind kind, std::uint32_t messages) {
  Side side;
  const GuardedMemory memory(kind, 64), inbox(MemoryKind::kHeap, 64 * 8);
  const auto region = memory.grant(side.pd, kAllAccess);
  const auto inbox_region = inbox.grant(side.pd, kAllAccess);
  const auto post = [&](std::uint64_t i) {
    WEFT_REQUIRE(side.qp.post_receive(inbox_region.sge(8 * i, 8), i));
  };
  side.connect(wire);
  for (std::uint64_t i = 0; i < 8; ++i) post(i);  // few: the sender finds none now and then
  wire.put(region.remote());
  for (std::uint64_t expected = 0; expected < messages; ++expected) {
    const Completion completion = side.wait();
    std::uint64_t sent = 0, written = 0;
    std::memcpy(&sent, inbox.data() + 8 * completion.wr_id, 8);
    std::memcpy(&written, memory.data(), 8);
    WEFT_REQUIRE(completion.ok() && sent == expected);
    WEFT_REQUIRE(written >= expected);  // the write came before the send, perhaps others too
    post(completion.wr_id);
  }
  wire.get<char>();
}

TEST_P(NeighbourOrder, of_completions_is_the_order_of_posting) {
  // Sends, writes, reads and atomics mixed; a write is seen before the send behind it.
  constexpr std::uint32_t kMessages = 2000;
  Partner target([](const Wire& wire) { run_counting_target(wire, GetParam(), kMessages); });
  Partner initiator([](const Wire& wire) {
    Side side;
    const GuardedMemory own(MemoryKind::kHeap, 8 * (kMessages + 1));
    const auto region = own.grant(side.pd, kAllAccess);
    side.connect(wire);
    const auto remote = wire.get<RemoteAddress>();
    std::uint64_t posted = 0, completed = 0;
    const auto take = [&] {
      while (const auto completion = side.cq.poll()) {
        WEFT_REQUIRE(completion->ok() && completion->wr_id == completed);
        ++completed;
      }
    };
    const auto post = [&](SendOp op, const Sge& sge, std::uint64_t offset) {
      while (posted - completed >= 64) take();
      WEFT_REQUIRE(
          side.qp.post_send(request_of(op, sge, {remote.address + offset, remote.key}, posted++)));
    };
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      std::memcpy(own.data() + 8 * i, &i, 8);
      post(SendOp::kWrite, region.sge(8 * i, 8), 0);
      if (i % 7 == 3) post(SendOp::kRead, region.sge(8 * kMessages, 8), 8);
      if (i % 11 == 5) post(SendOp::kFetchAdd, region.sge(8 * kMessages, 8), 16);
      post(SendOp::kSend, region.sge(8 * i, 8), 0);
    }
    for (const std::int64_t give_up = now_ms() + 15'000; completed < posted;) {
      WEFT_REQUIRE(now_ms() < give_up);
      take();
    }
    wire.put('d');
  });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<RemoteAddress>());
  char done = 0;
  EXPECT_TRUE(initiator.wire().get(&done));
  target.wire().put('d');
  EXPECT_EQ(initiator.join(), 0);
  EXPECT_EQ(target.join(), 0);
}

INSTANTIATE_TEST_SUITE_P(Neighbours, NeighbourOrder,
                         testing::Values(MemoryKind::kHeap, MemoryKind::kArena),
                         [](const auto& kind) { return name_of(kind.param); });

// ---- receivers that are late ------------------------------------------------------------------

TEST(LateReceiver, is_waited_for_and_gets_everything_in_order) {
  constexpr std::uint64_t kMessages = 50;
  Partner target([](const Wire& wire) {
    Side side;
    std::vector<std::uint64_t> inbox(kMessages);
    const auto region = *side.pd.register_memory(inbox, kAllAccess);
    side.connect(wire);
    for (const auto until = now_ms() + 20; now_ms() < until;) side.cq.poll({});
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      WEFT_REQUIRE(side.qp.post_receive(region.sge(8 * i, 8), i));
      const Completion completion = side.wait();
      WEFT_REQUIRE(completion.ok() && completion.wr_id == i && inbox[i] == i);
      if (i % 16 == 0) std::this_thread::sleep_for(2ms);
    }
    wire.sync();
  });
  Partner initiator([](const Wire& wire) {
    Side side;
    std::vector<std::uint64_t> outbox(kMessages);
    const auto region = *side.pd.register_memory(outbox, kAllAccess);
    side.connect(wire);
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      outbox[i] = i;
      WEFT_REQUIRE(side.qp.post_send(region.sge(8 * i, 8), i));
    }
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      const Completion completion = side.wait();
      WEFT_REQUIRE(completion.ok() && completion.wr_id == i);
    }
    wire.sync();
  });
  introduce(target.wire(), initiator.wire());
  target.wire().sync();
  initiator.wire().sync();
  EXPECT_EQ(target.join(), 0);
  EXPECT_EQ(initiator.join(), 0);
}

}  // namespace
}  // namespace weft::test

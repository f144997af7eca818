// One-shot keys between processes: whatever the operation, it is served once, and of two that come
// at the same time one is served.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "support/guarded_memory.h"
#include "support/mailbox.h"
#include "support/neighbour_side.h"

namespace weft::test {
namespace {

constexpr std::uint32_t kShotBytes = 300 * 1024;
constexpr std::byte kBeforeShot{0x11}, kFirst{0x21}, kSecond{0x22};

/// Two connections in one protection domain.
struct TwoConnections {
  explicit TwoConnections(const Wire& wire) {
    side.connect(wire);
    wire.put(second.endpoint());
    WEFT_REQUIRE(second.connect(wire.get<verbs::Endpoint>()));
    wire.sync();
  }
  Side side;
  verbs::QueuePair second = *side.pd.create_queue_pair(side.cq, side.cq);
};

/// Serves a one-shot region until told, then says what it holds: the same everywhere.
void run_one_shot_target(const Wire& wire, MemoryKind kind) {
  TwoConnections ends(wire);
  const GuardedMemory memory(kind, kShotBytes);
  memory.fill(kBeforeShot);
  const auto region = memory.grant(ends.side.pd, kAllAccess | Access::kOneShot);
  wire.put(region.remote());
  while (!said_something(wire)) ends.side.cq.poll({});
  wire.get<char>();
  wire.put(memory.is_all(memory.data()[0]) && memory.guards_intact() ? memory.data()[0]
                                                                     : std::byte{0});
}

using Statuses = std::array<CompletionStatus, 2>;

/// Two operations on the key, of the whole region: one after the other, or both at once.
void run_one_shot_initiator(const Wire& wire, SendOp op, bool at_once) {
  TwoConnections ends(wire);
  const std::array<GuardedMemory, 2> memory{GuardedMemory(MemoryKind::kHeap, kShotBytes),
                                            GuardedMemory(MemoryKind::kHeap, kShotBytes)};
  memory[0].fill(kFirst);
  memory[1].fill(kSecond);
  const auto remote = wire.get<RemoteAddress>();
  Statuses statuses{};
  std::array<verbs::QueuePair*, 2> qps{&ends.side.qp, &ends.second};
  const std::array regions{memory[0].grant(ends.side.pd, kAllAccess),
                           memory[1].grant(ends.side.pd, kAllAccess)};
  for (std::size_t i = 0; i < 2; ++i) {
    const Sge sge = regions[i].sge();
    SendRequest request;
    request.op = op;
    request.sges = {&sge, 1};
    request.remote = remote;
    request.wr_id = i;
    WEFT_REQUIRE(qps[i]->post_send(request));
    if (!at_once) statuses[i] = ends.side.wait().status;
  }
  for (int i = 0; at_once && i < 2; ++i) {
    const Completion completion = ends.side.wait();
    statuses[completion.wr_id] = completion.status;
  }
  wire.put(statuses);
  const bool read = op == SendOp::kRead && statuses[0] == CompletionStatus::kSuccess;
  WEFT_REQUIRE(memory[0].is_all(read ? kBeforeShot : kFirst));
}

class OneShotKey : public testing::TestWithParam<std::tuple<MemoryKind, SendOp, bool>> {};

TEST_P(OneShotKey, serves_once) {
  // B4.10: the key is spent by the first operation that it serves.
  const auto [kind, op, at_once] = GetParam();
  Partner target([k = kind](const Wire& wire) { run_one_shot_target(wire, k); });
  Partner initiator(
      [o = op, both = at_once](const Wire& wire) { run_one_shot_initiator(wire, o, both); });
  introduce(target.wire(), initiator.wire());
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<RemoteAddress>());
  Statuses statuses{};
  ASSERT_TRUE(initiator.wire().get(&statuses));
  target.wire().put('c');
  const bool first = statuses[0] == CompletionStatus::kSuccess;
  EXPECT_TRUE(first || at_once);
  EXPECT_EQ(to_string(statuses[first ? 0 : 1]), to_string(CompletionStatus::kSuccess));
  EXPECT_EQ(to_string(statuses[first ? 1 : 0]), to_string(CompletionStatus::kRemoteAccessError));
  const std::byte written = first ? kFirst : kSecond;
  EXPECT_EQ(target.wire().get<std::byte>(), op == SendOp::kRead ? kBeforeShot : written);
  EXPECT_EQ(target.join(), 0);
  EXPECT_EQ(initiator.join(), 0);
}
INSTANTIATE_TEST_SUITE_P(Neighbours, OneShotKey,
                         testing::Combine(testing::Values(MemoryKind::kHeap, MemoryKind::kArena),
                                          testing::Values(SendOp::kWrite, SendOp::kRead),
                                          testing::Bool()));

}  // namespace
}  // namespace weft::test

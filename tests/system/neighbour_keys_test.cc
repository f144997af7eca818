// Keys and ranges that a peer in another process was not granted: it gets an error, its target an
// event, and nothing else changes; the other connection of the two goes on.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "support/guarded_memory.h"
#include "support/mailbox.h"
#include "support/neighbour_side.h"

namespace weft::test {
namespace {

// Ends one byte before a word does, so that the last word is one byte too long.
constexpr std::uint32_t kGranted = 300 * 1024 - 1;
constexpr std::uint32_t kBefore = 64;
constexpr std::uint32_t kRegionBytes = kBefore + kGranted + 65;
constexpr std::byte kOld{0x11}, kNew{0x22};

enum class Wrong : std::uint8_t {
  kSlot,         ///< a key that nobody was given
  kTag,          ///< the next tag of a living key
  kStale,        ///< deregistered
  kReused,       ///< deregistered, and the memory registered again under another key
  kDomain,       ///< of another protection domain
  kQueuePair,    ///< a type-2 window of another queue pair
  kInvalidated,  ///< a type-2 window after its invalidation
  kTooLong,      ///< one byte more than was granted
  kTooEarly,     ///< from one byte before it, or one word
  kRights,       ///< a region that grants nothing
};
constexpr int kWrongs = 10;
enum class Op : std::uint8_t { kWrite, kWriteAll, kWriteImmediate, kRead, kReadAll, kFetchAdd };
constexpr int kOps = 6;

struct Result {
  CompletionStatus status;
  bool own_memory_unchanged;
  bool other_connection_works;
};

void connect(const Wire& wire, verbs::QueuePair& qp) {
  wire.put(qp.endpoint());
  WEFT_REQUIRE(qp.connect(wire.get<verbs::Endpoint>()));
  wire.sync();
}

class Target {
 public:
  Target(const Wire& wire, MemoryKind kind) : wire_(wire), memory_(kind, kRegionBytes) {
    memory_.fill(kOld);
    steady_.connect(wire);
    wire.put(probe_region_.remote());
  }

  void suffer(Wrong wrong) {
    qp_ = *steady_.pd.create_queue_pair(steady_.cq, steady_.cq);
    connect(wire_, *qp_);
    wire_.put(prepare(wrong));
    while (!said_something(wire_)) steady_.cq.poll({});
    wire_.get<char>();
    WEFT_REQUIRE(memory_.is_all(kOld) && memory_.guards_intact());
    wait_for_event();
    window_.reset();
    region_.reset();
    wire_.put('k');
  }

 private:
  verbs::MemoryRegion grant(const verbs::ProtectionDomain& pd, Access access) const {
    return *pd.register_memory(memory_.data() + kBefore, kGranted, access);
  }

  /// The address that is right, with a key that is wrong; or right, where the range is wrong.
  RemoteAddress prepare(Wrong wrong) {
    region_ = grant(wrong == Wrong::kDomain ? other_pd_ : steady_.pd,
                    wrong == Wrong::kRights ? Access::kLocalWrite : kAllAccess);
    RemoteAddress remote = region_->remote();
    switch (wrong) {
      case Wrong::kSlot:
        remote.key.value ^= 0x5A5A'5A00;
        break;
      case Wrong::kTag:
        remote.key.value = (remote.key.value & ~0xFFu) | ((remote.key.value + 1) & 0xFF);
        break;
      case Wrong::kStale:
        region_.reset();
        break;
      case Wrong::kReused:
        region_.reset();
        region_ = grant(steady_.pd, kAllAccess);
        break;
      case Wrong::kQueuePair:
        remote.key = bind(steady_.qp);
        break;
      case Wrong::kInvalidated:
        remote.key = bind(*qp_);
        invalidate(*qp_, remote.key);
        break;
      default:
        break;
    }
    return remote;
  }
  RemoteKey bind(verbs::QueuePair& qp) {
    window_ = *steady_.pd.allocate_window(verbs::WindowType::kType2);
    do_work(qp, window_->bind_request(
                    *region_, 0, kGranted,
                    Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic));
    return window_->rkey();
  }
  void invalidate(verbs::QueuePair& qp, RemoteKey key) {
    SendRequest request;
    request.op = SendOp::kLocalInvalidate;
    request.invalidate_key = key;
    do_work(qp, request);
  }
  void do_work(verbs::QueuePair& qp, const SendRequest& request) {
    WEFT_REQUIRE(qp.post_send(request));
    WEFT_REQUIRE(steady_.wait().ok());
  }

  void wait_for_event() {
    for (const std::int64_t give_up = now_ms() + 5000; now_ms() < give_up;) {
      steady_.cq.poll({});
      const auto event = steady_.device.next_event();
      if (!event) continue;
      WEFT_REQUIRE(event->kind == verbs::AsyncEventKind::kQueuePairAccessError);
      WEFT_REQUIRE(event->qpn == qp_->number());
      WEFT_REQUIRE(qp_->state() == QpState::kError);
      return;
    }
    WEFT_REQUIRE(!"an event in time");
  }

  const Wire& wire_;
  Side steady_;
  const verbs::ProtectionDomain other_pd_ = *steady_.device.allocate_pd();
  const GuardedMemory memory_;
  const GuardedMemory probe_{MemoryKind::kHeap, 64};
  const verbs::MemoryRegion probe_region_ = probe_.grant(steady_.pd, kAllAccess);
  std::optional<verbs::QueuePair> qp_;
  std::optional<verbs::MemoryRegion> region_;
  std::optional<verbs::MemoryWindow> window_;
};

class Initiator {
 public:
  explicit Initiator(const Wire& wire) : wire_(wire) {
    steady_.connect(wire);
    probe_ = wire.get<RemoteAddress>();
    memory_.fill(kNew);
  }

  void attempt(Wrong wrong, Op op) {
    auto qp = *steady_.pd.create_queue_pair(steady_.cq, steady_.cq);
    connect(wire_, qp);
    const auto remote = wire_.get<RemoteAddress>();
    const bool all = op == Op::kWriteAll || op == Op::kReadAll;
    std::uint32_t n = all ? kGranted : 8;
    SendRequest request;
    request.op = send_op(op);
    request.remote = remote;
    if (wrong == Wrong::kTooLong) {
      request.remote.address += all ? 0 : kGranted - 7;
      n += all ? 1 : 0;
    } else if (wrong == Wrong::kTooEarly) {
      request.remote.address -= op == Op::kFetchAdd ? 8 : 1;
    }
    const Sge sge = region_.sge(0, n);
    request.sges = {&sge, 1};
    request.operand = 1;
    WEFT_REQUIRE(qp.post_send(request));
    Result result{steady_.wait().status, memory_.is_all(kNew) && memory_.guards_intact(), false};
    result.other_connection_works =
        steady_.succeeds(steady_.qp.post_write(region_.sge(0, 64), probe_));
    wire_.put(result);
  }

 private:
  static SendOp send_op(Op op) {
    switch (op) {
      case Op::kWrite:
      case Op::kWriteAll:
        return SendOp::kWrite;
      case Op::kWriteImmediate:
        return SendOp::kWriteImmediate;
      case Op::kRead:
      case Op::kReadAll:
        return SendOp::kRead;
      case Op::kFetchAdd:
        return SendOp::kFetchAdd;
    }
    return SendOp::kSend;
  }

  const Wire& wire_;
  Side steady_;
  const GuardedMemory memory_{MemoryKind::kHeap, kGranted + 1};
  const verbs::MemoryRegion region_ = memory_.grant(steady_.pd, kAllAccess);
  RemoteAddress probe_;
};

template <class Do>
void for_each_case(Do work) {
  for (int wrong = 0; wrong < kWrongs; ++wrong) {
    for (int op = 0; op < kOps; ++op) work(static_cast<Wrong>(wrong), static_cast<Op>(op));
  }
}

class NeighbourKeys : public testing::TestWithParam<MemoryKind> {};

TEST_P(NeighbourKeys, that_were_not_granted_give_an_error_and_nothing_else) {
  // B4.9: wrong, stale and foreign keys, and ranges one byte too long.
  Partner target([](const Wire& wire) {
    Target end(wire, GetParam());
    for_each_case([&](Wrong wrong, Op) { end.suffer(wrong); });
  });
  Partner initiator([](const Wire& wire) {
    Initiator end(wire);
    for_each_case([&](Wrong wrong, Op op) { end.attempt(wrong, op); });
  });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<RemoteAddress>());
  for_each_case([&](Wrong wrong, Op op) {
    if (testing::Test::HasFailure()) return;
    SCOPED_TRACE("wrong " + std::to_string(static_cast<int>(wrong)) + ", operation " +
                 std::to_string(static_cast<int>(op)));
    introduce(target.wire(), initiator.wire());
    initiator.wire().put(target.wire().get<RemoteAddress>());
    Result result{};
    EXPECT_TRUE(initiator.wire().get(&result));
    EXPECT_EQ(to_string(result.status), to_string(CompletionStatus::kRemoteAccessError));
    EXPECT_TRUE(result.own_memory_unchanged);
    EXPECT_TRUE(result.other_connection_works);
    target.wire().put('c');
    char checked = 0;
    EXPECT_TRUE(target.wire().get(&checked));
  });
  if (HasFailure()) return;
  EXPECT_EQ(target.join(), 0);
  EXPECT_EQ(initiator.join(), 0);
}
// An initiator that writes in turns by two keys remembers both.
TEST_P(NeighbourKeys, in_turns_lead_to_their_own_memory_until_they_are_revoked) {
  constexpr std::uint32_t kTurns = 20;
  Partner target([](const Wire& wire) {
    Side side;
    const GuardedMemory one(GetParam(), 64), other(GetParam(), 64);
    std::optional<verbs::MemoryRegion> first = one.grant(side.pd, kAllAccess);
    const auto second = other.grant(side.pd, kAllAccess);
    side.connect(wire);
    wire.put(first->remote());
    wire.put(second.remote());
    wire.get<char>();
    WEFT_REQUIRE(one.is_all(static_cast<std::byte>(kTurns)));
    WEFT_REQUIRE(other.is_all(static_cast<std::byte>(kTurns + 1)));
    first.reset();
    wire.put('r');
    while (!said_something(wire)) side.cq.poll({});
    wire.get<char>();
    WEFT_REQUIRE(one.is_all(static_cast<std::byte>(kTurns)) && one.guards_intact());
  });
  Partner initiator([](const Wire& wire) {
    Side side;
    const GuardedMemory own(MemoryKind::kHeap, 64);
    const auto region = own.grant(side.pd, kAllAccess);
    side.connect(wire);
    const auto first = wire.get<RemoteAddress>(), second = wire.get<RemoteAddress>();
    for (std::uint32_t turn = 1; turn <= kTurns; ++turn) {
      own.fill(static_cast<std::byte>(turn));
      WEFT_REQUIRE(side.succeeds(side.qp.post_write(region.sge(0, 64), first)));
      own.fill(static_cast<std::byte>(turn + 1));
      WEFT_REQUIRE(side.succeeds(side.qp.post_write(region.sge(0, 64), second)));
    }
    wire.put('w');
    wire.get<char>();  // the first is revoked, the second was written to last
    WEFT_REQUIRE(side.qp.post_write(region.sge(0, 64), first));
    wire.put(side.wait().status);
  });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<RemoteAddress>());
  initiator.wire().put(target.wire().get<RemoteAddress>());
  target.wire().put(initiator.wire().get<char>());
  initiator.wire().put(target.wire().get<char>());
  EXPECT_EQ(to_string(initiator.wire().get<CompletionStatus>()),
            to_string(CompletionStatus::kRemoteAccessError));
  target.wire().put('c');
  EXPECT_EQ(target.join(), 0);
  EXPECT_EQ(initiator.join(), 0);
}
INSTANTIATE_TEST_SUITE_P(Neighbours, NeighbourKeys,
                         testing::Values(MemoryKind::kHeap, MemoryKind::kArena),
                         [](const auto& kind) { return name_of(kind.param); });

}  // namespace
}  // namespace weft::test

// What a peer may not do, over every path: the same completion at the initiator, memory untouched,
// both queue pairs in the error state, everything else flushed, the owner told.
#include <array>
#include <vector>

#include "support/path_suite.h"

namespace weft::test {
namespace {

constexpr AsyncEventKind kAccessEvent = AsyncEventKind::kQueuePairAccessError;
constexpr AsyncEventKind kRequestEvent = AsyncEventKind::kQueuePairRequestError;

class PathRefusals : public PathSuite {
 protected:
  /// Posts the request with a harmless write behind it, and looks at everything that must follow.
  void expect_refused(SendRequest request, const Sge& sge,
                      CompletionStatus status = CompletionStatus::kRemoteAccessError,
                      AsyncEventKind event = kAccessEvent, QueuePairAttributes attributes = {}) {
    Link link = connect({}, attributes);
    expect_refused(link, request, sge, status, event);
  }

  void expect_refused(Link& link, SendRequest request, const Sge& sge, CompletionStatus status,
                      AsyncEventKind event) {
    Memory harmless(a, 8), behind(b, 8);
    harmless.fill(1);
    post_receive(link.a, 60);
    post_receive(link.b, 50);
    post_receive(link.b, 51);
    request.wr_id = 1;
    request.sges = {&sge, 1};
    const Sge some = harmless.sge();
    const std::array<SendRequest, 2> both{
        request, {.wr_id = 2, .op = SendOp::kWrite, .sges = {&some, 1}, .remote = behind.remote()}};
    std::size_t posted = 0;
    must(link.a.post_send(both, &posted));
    EXPECT_TRUE(has_failed(next(a.sends), 1, status));
    EXPECT_TRUE(has_failed(next(a.sends), 2, CompletionStatus::kFlushed));
    EXPECT_TRUE(has_failed(next(a.receives), 60, CompletionStatus::kFlushed));
    EXPECT_TRUE(has_failed(next(b.receives), 50, CompletionStatus::kFlushed));
    EXPECT_TRUE(has_failed(next(b.receives), 51, CompletionStatus::kFlushed));
    const AsyncEvent told = next_event(b);
    EXPECT_EQ(told.kind, event);
    EXPECT_EQ(told.qpn, link.b.number());
    EXPECT_EQ(link.a.state(), QpState::kError);
    EXPECT_EQ(link.b.state(), QpState::kError);
    EXPECT_TRUE(behind.is_zero()) << "what stood behind the failure never happened";
    EXPECT_TRUE(is_quiet(a.sends));
    EXPECT_TRUE(is_quiet(b.receives));
  }

  /// Write, read and (8 bytes at a multiple of 8) fetch-and-add.
  void expect_all_refused(const RemoteAddress& at, const Memory& near, std::uint32_t length) {
    for (const SendOp op : {SendOp::kWrite, SendOp::kRead, SendOp::kFetchAdd}) {
      if (op == SendOp::kFetchAdd && (length != 8 || at.address % 8 != 0)) continue;
      SCOPED_TRACE(to_string(op));
      SendRequest request{.op = op, .remote = at};
      request.operand = 1;
      expect_refused(request, near.sge(0, length));
    }
    EXPECT_TRUE(near.holds(kNear));
  }

  /// Three times, so that whatever is remembered of the keys is.
  void expect_to_work(Link& link, SendOp op, const Sge& near, const RemoteAddress& far) {
    const auto done = op == SendOp::kRead ? CompletionOp::kRead : CompletionOp::kWrite;
    for (std::uint64_t i = 0; i < 3; ++i) {
      post(link.a, {.wr_id = i, .op = op, .remote = far}, {near});
      EXPECT_TRUE(is_done(next(a.sends), i, done, 8));
    }
  }

  static constexpr std::uint32_t kNear = 70, kFar = 71;
};
INSTANTIATE_TEST_SUITE_P(Over, PathRefusals, testing::ValuesIn(all_ways()), way_name);

TEST_P(PathRefusals, a_key_that_never_was) {
  // B4.9
  Memory near(a, 8), far(b, 8);
  near.fill(kNear), far.fill(kFar);
  for (const std::uint32_t flipped : {1u, 0x100u, 0x8000'0000u}) {
    expect_all_refused({far.region.address(), RemoteKey(far.region.rkey().value ^ flipped)}, near,
                       8);
  }
  EXPECT_TRUE(far.holds(kFar));
}

TEST_P(PathRefusals, a_key_whose_region_is_gone) {
  // B4.9
  Memory near(a, 8), far(b, 8);
  near.fill(kNear), far.fill(kFar);
  const RemoteAddress stale = far.remote();
  must(far.region.deregister());
  expect_all_refused(stale, near, 8);
  EXPECT_TRUE(far.holds(kFar));
}

TEST_P(PathRefusals, a_key_that_worked_a_moment_ago) {
  // B4.9: whatever a queue pair remembers of a key, it forgets when the key goes.
  Memory near(a, 8);
  for (const SendOp op : {SendOp::kWrite, SendOp::kRead}) {
    SCOPED_TRACE(to_string(op));
    Memory far(b, 8);
    Link link = connect();
    expect_to_work(link, op, near.sge(), far.remote());
    const RemoteAddress stale = far.remote();
    must(far.region.deregister());
    near.fill(kNear), far.fill(kFar);
    expect_refused(link, {.op = op, .remote = stale}, near.sge(),
                   CompletionStatus::kRemoteAccessError, kAccessEvent);
    EXPECT_TRUE(near.holds(kNear));
    EXPECT_TRUE(far.holds(kFar));
  }
}

TEST_P(PathRefusals, a_local_key_that_worked_a_moment_ago) {
  // B4.1
  for (const SendOp op : {SendOp::kWrite, SendOp::kRead}) {
    SCOPED_TRACE(to_string(op));
    Memory near(a, 8), far(b, 8);
    Link link = connect();
    expect_to_work(link, op, near.sge(), far.remote());
    const Sge stale = near.sge();
    must(near.region.deregister());
    near.fill(kNear);
    post(link.a, {.wr_id = 9, .op = op, .remote = far.remote()}, {stale});
    EXPECT_TRUE(has_failed(next(a.sends), 9, CompletionStatus::kLocalProtectionError));
    EXPECT_TRUE(near.holds(kNear));
    EXPECT_TRUE(far.is_zero());
  }
}

TEST_P(PathRefusals, a_read_into_memory_that_may_only_be_read) {
  // Also when writes have used both keys before.
  std::vector<std::byte> bytes(8);
  const MemoryRegion near = must(a.pd.register_memory(bytes, Access::kNone));
  Memory far(b, 8);
  far.fill(kFar);
  Link link = connect();
  expect_to_work(link, SendOp::kWrite, near.sge(), far.remote());
  far.fill(kFar);
  post(link.a, {.wr_id = 9, .op = SendOp::kRead, .remote = far.remote()}, {near.sge()});
  EXPECT_TRUE(has_failed(next(a.sends), 9, CompletionStatus::kLocalProtectionError));
  EXPECT_EQ(bytes, std::vector<std::byte>(8));
}

TEST_P(PathRefusals, rights_that_the_queue_pair_took_back) {
  Memory near(a, 8), far(b, 8);
  near.fill(kNear);
  Link link = connect();
  expect_to_work(link, SendOp::kWrite, near.sge(), far.remote());
  QueuePairAttributes readable;
  readable.access = Access::kRemoteRead;
  must(link.b.modify(QpState::kReadyToSend, readable, QpAttribute::kAccess));
  far.fill(kFar);
  post(link.a, {.wr_id = 8, .op = SendOp::kRead, .remote = far.remote()}, {near.sge()});
  EXPECT_TRUE(is_done(next(a.sends), 8, CompletionOp::kRead, 8));
  near.fill(kNear);
  expect_refused(link, {.op = SendOp::kWrite, .remote = far.remote()}, near.sge(),
                 CompletionStatus::kRemoteAccessError, kAccessEvent);
  EXPECT_TRUE(far.holds(kFar));
}

TEST_P(PathRefusals, a_key_of_another_protection_domain) {
  // B4.9
  const Node elsewhere(b.device);
  Memory near(a, 8), far(elsewhere, 8);
  near.fill(kNear), far.fill(kFar);
  expect_all_refused(far.remote(), near, 8);
  EXPECT_TRUE(far.holds(kFar));
}

TEST_P(PathRefusals, one_byte_outside_refuses_all_of_it) {
  // B4.9: large and small, before the beginning and past the end.
  constexpr std::uint32_t kSize = 100'000;
  Memory near(a, kSize + 16), around(b, kSize + 16);
  near.fill(kNear), around.fill(kFar);
  const MemoryRegion inner =
      must(b.pd.register_memory(around.bytes.data() + 8, kSize, kEverything));
  expect_all_refused(inner.remote(kSize - 7), near, 8);
  expect_all_refused(inner.remote(kSize), near, 8);
  expect_all_refused(inner.remote(static_cast<std::uint64_t>(-1)), near, 8);
  expect_all_refused(inner.remote(0), near, kSize + 1);
  expect_all_refused(inner.remote(static_cast<std::uint64_t>(-1)), near, kSize);
  EXPECT_TRUE(around.holds(kFar));
}

TEST_P(PathRefusals, a_long_read_that_ends_one_byte_outside) {
  // B4.9: on the wire it takes several requests, and the last one is refused.
  QueuePairAttributes attributes;
  attributes.path_mtu = Mtu::k256;
  constexpr std::uint32_t kSize = 20'000;
  Memory near(a, kSize + 1), far(b, kSize);
  expect_refused({.op = SendOp::kRead, .remote = far.remote()}, near.sge(),
                 CompletionStatus::kRemoteAccessError, kAccessEvent, attributes);
}

TEST_P(PathRefusals, an_end_beyond_the_address_space) {
  // B4.9
  Memory near(a, 64), far(b, 64);
  near.fill(kNear), far.fill(kFar);
  expect_all_refused({~std::uint64_t{0} - 7, far.region.rkey()}, near, 8);
  expect_all_refused({~std::uint64_t{0} - 30, far.region.rkey()}, near, 64);
  EXPECT_TRUE(far.holds(kFar));
}

TEST_P(PathRefusals, rights_that_the_region_does_not_give) {
  // B4.9
  Memory near(a, 8), readable(b, 8, Access::kLocalWrite | Access::kRemoteRead),
      writable(b, 8, Access::kLocalWrite | Access::kRemoteWrite);
  near.fill(kNear), readable.fill(kFar), writable.fill(kFar);
  expect_refused({.op = SendOp::kWrite, .remote = readable.remote()}, near.sge());
  expect_refused({.op = SendOp::kFetchAdd, .remote = readable.remote()}, near.sge());
  expect_refused({.op = SendOp::kCompareSwap, .remote = writable.remote()}, near.sge());
  expect_refused({.op = SendOp::kRead, .remote = writable.remote()}, near.sge());
  EXPECT_TRUE(readable.holds(kFar) && writable.holds(kFar) && near.holds(kNear));
}

TEST_P(PathRefusals, rights_that_the_queue_pair_does_not_give) {
  Memory near(a, 8), far(b, 8);
  near.fill(kNear), far.fill(kFar);
  for (const auto& [op, missing] : {std::pair{SendOp::kWrite, Access::kRemoteWrite},
                                    std::pair{SendOp::kRead, Access::kRemoteRead},
                                    std::pair{SendOp::kCompareSwap, Access::kRemoteAtomic}}) {
    QueuePairAttributes attributes;
    attributes.access = attributes.access & ~missing;
    expect_refused({.op = op, .remote = far.remote()}, near.sge(),
                   CompletionStatus::kRemoteAccessError, kAccessEvent, attributes);
  }
  EXPECT_TRUE(far.holds(kFar) && near.holds(kNear));
}

TEST_P(PathRefusals, an_atomic_that_is_not_aligned) {
  Memory near(a, 8), far(b, 24);
  near.fill(kNear), far.fill(kFar);
  for (const SendOp op : {SendOp::kCompareSwap, SendOp::kFetchAdd}) {
    expect_refused({.op = op, .remote = far.remote(4)}, near.sge(),
                   CompletionStatus::kRemoteInvalidRequest, kRequestEvent);
  }
  EXPECT_TRUE(far.holds(kFar) && near.holds(kNear));
}

TEST_P(PathRefusals, an_atomic_write_without_the_right_or_not_aligned_or_beyond) {
  Memory readable(b, 24, Access::kLocalWrite | Access::kRemoteRead | Access::kRemoteAtomic),
      far(b, 24);
  readable.fill(kFar), far.fill(kFar);
  expect_refused({.op = SendOp::kAtomicWrite, .remote = readable.remote()}, {});
  expect_refused({.op = SendOp::kAtomicWrite, .remote = far.remote(24)}, {});
  expect_refused({.op = SendOp::kAtomicWrite, .remote = far.remote(4)}, {},
                 CompletionStatus::kRemoteInvalidRequest, kRequestEvent);
  EXPECT_TRUE(far.holds(kFar) && readable.holds(kFar));
}

TEST_P(PathRefusals, a_window_without_the_right) {
  // B4.5: a window narrows what its region allows.
  Link link = connect();
  Memory near(a, 8), far(b, 64);
  near.fill(kNear), far.fill(kFar);
  MemoryWindow window = must(b.pd.allocate_window(WindowType::kType1));
  must(link.b.post_send(window.bind_request(far.region, 0, 64, Access::kRemoteRead)));
  EXPECT_TRUE(next(b.sends).ok());
  expect_refused(link, {.op = SendOp::kWrite, .remote = {far.region.address(), window.rkey()}},
                 near.sge(), CompletionStatus::kRemoteAccessError, kAccessEvent);
  EXPECT_TRUE(far.holds(kFar));
}

}  // namespace
}  // namespace weft::test

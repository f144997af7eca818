// Keys and windows over every path: bind and unbind as work of the send queue, invalidation, keys
// that serve one operation, keys that serve everybody.
#include <algorithm>
#include <array>
#include <cstring>

#include "support/path_suite.h"

namespace weft::test {
namespace {

constexpr Access kWindowRights = Access::kRemoteWrite | Access::kRemoteRead;

class PathWindows : public PathSuite {
 protected:
  void bind(QueuePair& owner, MemoryWindow& window, const Memory& memory, std::uint64_t offset,
            std::uint64_t length, Access access = kWindowRights) {
    SendRequest request = window.bind_request(memory.region, offset, length, access);
    request.wr_id = 900;
    must(owner.post_send(request));
    EXPECT_TRUE(is_done(next(b.sends), 900, CompletionOp::kBind, 0));
  }

  /// The status of a write of 8 bytes through a fresh pair of queue pairs, so that a refusal harms
  /// nobody else.
  CompletionStatus try_write(const RemoteAddress& to) {
    Link link = connect();
    return try_write(link, to);
  }
  CompletionStatus try_write(Link& link, const RemoteAddress& to) {
    Memory from(a, 8);
    from.fill(60);
    post(link.a, {.wr_id = 901, .op = SendOp::kWrite, .remote = to}, {from.sge()});
    return next(a.sends).status;
  }
};
INSTANTIATE_TEST_SUITE_P(Over, PathWindows, testing::ValuesIn(all_ways()), way_name);

TEST_P(PathWindows, a_type_1_window_opens_exactly_its_range) {
  // B4.5, B4.6, B4.9: to the byte, on both ends.
  Link link = connect();
  Memory memory(b, 64, Access::kLocalWrite | Access::kWindowBind);
  MemoryWindow window = must(b.pd.allocate_window(WindowType::kType1));
  bind(link.b, window, memory, 13, 21);
  const std::uint64_t base = memory.region.address();
  EXPECT_EQ(try_write({base + 13, window.rkey()}), kDone);
  EXPECT_EQ(try_write({base + 26, window.rkey()}), kDone);
  EXPECT_EQ(try_write({base + 12, window.rkey()}), kRefused);
  EXPECT_EQ(try_write({base + 27, window.rkey()}), kRefused);
  EXPECT_TRUE(memory.holds(60, 13, 8));
  EXPECT_TRUE(memory.holds(60, 26, 8));
  EXPECT_TRUE(memory.is_zero(0, 13));
  EXPECT_TRUE(memory.is_zero(34, 30));
}

TEST_P(PathWindows, a_type_1_window_is_bound_again_under_a_new_key) {
  // B4.8: one region at a time, again and again.
  Link link = connect();
  Memory memory(b, 64), other(b, 64);
  MemoryWindow window = must(b.pd.allocate_window(WindowType::kType1));
  bind(link.b, window, memory, 0, 8);
  const RemoteKey first = window.rkey();
  bind(link.b, window, other, 8, 8);
  EXPECT_NE(window.rkey(), first);
  EXPECT_EQ(try_write({memory.region.address(), first}), kRefused);
  EXPECT_EQ(try_write({memory.region.address(), window.rkey()}), kRefused);
  EXPECT_EQ(try_write({other.region.address() + 8, window.rkey()}), kDone);
  EXPECT_TRUE(memory.is_zero());
}

TEST_P(PathWindows, an_unbound_window_opens_nothing) {
  // B4.5: unbinding is binding to nothing.
  Link link = connect();
  Memory memory(b, 64);
  MemoryWindow window = must(b.pd.allocate_window(WindowType::kType1));
  bind(link.b, window, memory, 0, 64);
  const RemoteKey bound = window.rkey();
  bind(link.b, window, memory, 0, 0);
  EXPECT_EQ(try_write({memory.region.address(), bound}), kRefused);
  EXPECT_EQ(try_write({memory.region.address(), window.rkey()}), kRefused);
  EXPECT_TRUE(memory.is_zero());
}

TEST_P(PathWindows, unbinding_stops_a_peer_that_was_using_the_window) {
  // B4.5
  Link link = connect(), owner = connect();
  Memory memory(b, 64);
  MemoryWindow window = must(b.pd.allocate_window(WindowType::kType1));
  bind(owner.b, window, memory, 0, 64);
  const RemoteAddress bound{memory.region.address(), window.rkey()};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(try_write(link, bound), kDone);
  bind(owner.b, window, memory, 0, 0);
  std::fill(memory.bytes.begin(), memory.bytes.end(), std::byte{0});
  EXPECT_EQ(try_write(link, bound), kRefused);
  EXPECT_TRUE(memory.is_zero());
}

TEST_P(PathWindows, binding_waits_for_its_turn_in_the_send_queue) {
  // B4.6: behind a delay that no machine is slow enough to outlast.
  Link link = connect();
  Memory memory(b, 64);
  MemoryWindow window = must(b.pd.allocate_window(WindowType::kType1));
  SendRequest request = window.bind_request(memory.region, 0, 64, kWindowRights);
  request.wr_id = 2;
  post(link.b, {.wr_id = 1, .op = SendOp::kDelay, .delay_ns = 3'600'000'000'000});
  must(link.b.post_send(request));
  EXPECT_EQ(try_write({memory.region.address(), window.rkey()}), kRefused) << "not yet bound";
  EXPECT_TRUE(memory.is_zero());
  must(link.b.modify(QpState::kError));
  EXPECT_TRUE(has_failed(next(b.sends), 1, CompletionStatus::kFlushed));
  EXPECT_TRUE(has_failed(next(b.sends), 2, CompletionStatus::kFlushed));
}

TEST_P(PathWindows, a_peer_that_hears_of_a_key_by_the_send_behind_its_bind_may_use_it) {
  // B4.6: in order with the other work.
  Link link = connect();
  Memory memory(b, 64), inbox(a, 8);
  MemoryWindow window = must(b.pd.allocate_window(WindowType::kType1));
  post_receive(link.a, 50, {inbox.sge()});
  SendRequest request = window.bind_request(memory.region, 0, 64, kWindowRights);
  request.wr_id = 2;
  post(link.b, {.wr_id = 1, .op = SendOp::kDelay, .delay_ns = 1'000'000});
  must(link.b.post_send(request));
  post(link.b, {.wr_id = 3, .op = SendOp::kSend});
  EXPECT_TRUE(is_done(next(a.receives), 50, CompletionOp::kReceive, 0));
  EXPECT_EQ(try_write({memory.region.address(), window.rkey()}), kDone);
  EXPECT_TRUE(is_done(next(b.sends), 1, CompletionOp::kDelay, 0));
  EXPECT_TRUE(is_done(next(b.sends), 2, CompletionOp::kBind, 0));
  EXPECT_TRUE(is_done(next(b.sends), 3, CompletionOp::kSend, 0));
}

TEST_P(PathWindows, a_type_2_window_serves_only_the_queue_pair_that_bound_it) {
  Link link = connect();
  Memory memory(b, 64);
  MemoryWindow window = must(b.pd.allocate_window(WindowType::kType2));
  bind(link.b, window, memory, 0, 64);
  EXPECT_EQ(try_write(link, {memory.region.address(), window.rkey()}), kDone);
  EXPECT_EQ(try_write({memory.region.address() + 8, window.rkey()}), kRefused);
  EXPECT_TRUE(memory.is_zero(8, 56));
}

TEST_P(PathWindows, local_invalidate_takes_a_type_2_key_out_of_use) {
  Link link = connect();
  Memory memory(b, 64);
  MemoryWindow window = must(b.pd.allocate_window(WindowType::kType2));
  bind(link.b, window, memory, 0, 64);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(try_write(link, {memory.region.address(), window.rkey()}), kDone);
  }
  std::fill(memory.bytes.begin(), memory.bytes.end(), std::byte{0});
  post(link.b, {.wr_id = 5, .op = SendOp::kLocalInvalidate, .invalidate_key = window.rkey()});
  EXPECT_TRUE(is_done(next(b.sends), 5, CompletionOp::kLocalInvalidate, 0));
  EXPECT_EQ(try_write(link, {memory.region.address(), window.rkey()}), kRefused);
  EXPECT_TRUE(memory.is_zero());
}

TEST_P(PathWindows, send_with_invalidate_takes_the_peers_key_out_of_use) {
  Link link = connect();
  Memory memory(b, 64), from(a, 8), inbox(b, 8);
  from.fill(1);
  MemoryWindow window = must(b.pd.allocate_window(WindowType::kType2));
  bind(link.b, window, memory, 0, 64);
  const RemoteKey key = window.rkey();
  post_receive(link.b, 50, {inbox.sge()});
  post(link.a, {.wr_id = 1, .op = SendOp::kSendInvalidate, .invalidate_key = key}, {from.sge()});
  const Completion received = next(b.receives);
  EXPECT_TRUE(is_done(received, 50, CompletionOp::kReceive, 8));
  EXPECT_TRUE(received.has_invalidate);
  EXPECT_EQ(received.invalidated_key, key);
  EXPECT_FALSE(received.has_immediate);
  EXPECT_TRUE(inbox.holds(1));
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kSend, 8));
  bind(link.b, window, memory, 8, 8);  // free to be bound again
  EXPECT_EQ(try_write(link, {memory.region.address(), key}), kRefused);
  EXPECT_TRUE(memory.is_zero());
}

TEST_P(PathWindows, invalidating_a_key_that_is_none_is_refused) {
  Link link = connect();
  Memory memory(b, 64), inbox(b, 8);
  post_receive(link.b, 50, {inbox.sge()});
  // A region's ordinary key is not the peer's to take away.
  post(link.a, {.wr_id = 1, .op = SendOp::kSendInvalidate, .invalidate_key = memory.region.rkey()});
  EXPECT_TRUE(has_failed(next(a.sends), 1, kRefused));
  EXPECT_FALSE(next(b.receives).ok());
  EXPECT_EQ(try_write(memory.remote()), kDone) << "the key still works";
}

TEST_P(PathWindows, a_bind_beyond_the_region_fails_and_stops_the_queue) {
  // B4.7
  Link link = connect();
  Memory memory(b, 64);
  MemoryWindow window = must(b.pd.allocate_window(WindowType::kType1));
  SendRequest request = window.bind_request(memory.region, 1, 64, kWindowRights);
  request.wr_id = 1;
  must(link.b.post_send(request));
  EXPECT_TRUE(has_failed(next(b.sends), 1, CompletionStatus::kWindowBindError));
  EXPECT_TRUE(wait_until([&] { return link.b.state() == QpState::kError; }));
}

TEST_P(PathWindows, one_bound_key_serves_many_queue_pairs_and_nodes) {
  // B4.8: whichever queue pair bound it, all of the address space's serve it, for any number of
  // peers; bound elsewhere, it serves all of them there and none where it was.
  const Node c(open()), d(open());
  Memory memory(b, 64, Access::kLocalWrite | Access::kWindowBind);
  Memory other(b, 64, Access::kLocalWrite | Access::kWindowBind);
  Link owner = connect();
  MemoryWindow window = must(b.pd.allocate_window(WindowType::kType1));
  std::vector<Link> links;
  const std::array<const Node*, 4> nodes{&a, &a, &c, &d};
  for (const Node* node : nodes) links.push_back(connect(*node, b));
  const auto write_by_all = [&](const Memory& to, RemoteKey key, std::uint32_t seed) {
    std::vector<CompletionStatus> statuses;
    for (std::uint32_t i = 0; i < 4; ++i) {
      Memory from(*nodes[i], 8);
      from.fill(seed + i);
      const RemoteAddress remote{to.region.address() + 16 + 8 * i, key};
      post(links[i].a, {.wr_id = i, .op = SendOp::kWrite, .remote = remote}, {from.sge()});
      statuses.push_back(next(nodes[i]->sends).status);
    }
    return statuses;
  };
  const auto holds_all = [](const Memory& where, std::uint32_t seed) {
    bool all = where.is_zero(0, 16) && where.is_zero(48, 16);
    for (std::uint32_t i = 0; i < 4; ++i) all = all && where.holds(seed + i, 16 + 8 * i, 8);
    return all;
  };
  const std::vector all_done(4, kDone), all_refused(4, kRefused);
  bind(owner.b, window, memory, 16, 32);
  const RemoteKey first = window.rkey();
  EXPECT_EQ(write_by_all(memory, first, 10), all_done);
  EXPECT_TRUE(holds_all(memory, 10));
  bind(owner.b, window, other, 16, 32);
  EXPECT_EQ(write_by_all(other, window.rkey(), 20), all_done);
  EXPECT_TRUE(holds_all(other, 20));
  EXPECT_EQ(write_by_all(memory, first, 30), all_refused);
  EXPECT_TRUE(holds_all(memory, 10));
}

TEST_P(PathWindows, a_key_travels_in_a_message_and_comes_back_in_the_request) {
  // B4.11: all that the peer knows of the memory came in the message.
  struct Offer {
    RemoteAddress memory;
    std::uint32_t length;
  };
  Link link = connect();
  Memory offered(b, 700, Access::kLocalWrite | Access::kWindowBind);
  Memory letter(b, sizeof(Offer)), inbox(a, sizeof(Offer)), data(a, 500), back(a, 500);
  MemoryWindow window = must(b.pd.allocate_window(WindowType::kType1));
  for (std::uint32_t turn = 0; turn < 3; ++turn) {
    data.fill(2 + turn);
    std::fill(offered.bytes.begin(), offered.bytes.end(), std::byte{0});
    const std::uint64_t offset = 100 - 50 * turn;
    post_receive(link.a, 50, {inbox.sge()});
    // The bind is in front of the message, so the key works when it arrives.
    SendRequest request = window.bind_request(offered.region, offset, 500, kWindowRights);
    request.wr_id = 900;
    must(link.b.post_send(request));
    const Offer offer{{offered.region.address() + offset, window.rkey()}, 500};
    std::memcpy(letter.bytes.data(), &offer, sizeof offer);
    post(link.b, {.wr_id = 1, .op = SendOp::kSend}, {letter.sge()});
    EXPECT_TRUE(next(a.receives).ok());
    Offer got;
    std::memcpy(&got, inbox.bytes.data(), sizeof got);
    EXPECT_EQ(got.memory.key, window.rkey());
    post(link.a, {.wr_id = 2, .op = SendOp::kWrite, .remote = got.memory},
         {data.sge(0, got.length)});
    EXPECT_TRUE(is_done(next(a.sends), 2, CompletionOp::kWrite, 500));
    post(link.a, {.wr_id = 3, .op = SendOp::kRead, .remote = got.memory},
         {back.sge(0, got.length)});
    EXPECT_TRUE(is_done(next(a.sends), 3, CompletionOp::kRead, 500));
    EXPECT_TRUE(back.holds(2 + turn));
    EXPECT_TRUE(offered.holds(2 + turn, offset, 500));
    EXPECT_TRUE(offered.is_zero(0, offset) && offered.is_zero(offset + 500, 200 - offset));
    EXPECT_TRUE(is_done(next(b.sends), 900, CompletionOp::kBind, 0));
    EXPECT_TRUE(is_done(next(b.sends), 1, CompletionOp::kSend, sizeof(Offer)));
  }
}

}  // namespace
}  // namespace weft::test

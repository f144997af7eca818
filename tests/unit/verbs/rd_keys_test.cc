// Keys over reliable datagrams: one bound key serves many nodes through one queue pair (B4.8), keys
// travel in messages (B4.11), and one-shot keys of regions and windows serve one operation (B4.10).
#include <cstring>

#include "support/rd_suite.h"

namespace weft::test {
namespace {

class RdKeys : public RdSuite {};
INSTANTIATE_TEST_SUITE_P(Over, RdKeys, testing::ValuesIn(datagram_ways()), way_name);

TEST_P(RdKeys, one_bound_key_serves_many_nodes_through_one_queue_pair) {
  // B4.8, B4.11
  constexpr std::size_t kNodes = 4, kEach = 64;
  QueuePair owner = open_rd(b);
  Memory memory(b, kNodes * kEach, Access::kLocalWrite | Access::kWindowBind);
  MemoryWindow window = must(b.pd.allocate_window(WindowType::kType1));
  SendRequest bind = window.bind_request(memory.region, 0, kNodes * kEach, Access::kRemoteWrite);
  bind.wr_id = 50;
  must(owner.post_send(bind));
  EXPECT_TRUE(is_done(next(b.sends), 50, CompletionOp::kBind, 0));
  Memory told(b, sizeof(RemoteAddress));
  const RemoteAddress offered{memory.region.address(), window.rkey()};
  std::memcpy(told.bytes.data(), &offered, sizeof offered);
  for (std::size_t i = 0; i < kNodes; ++i) {
    const Node node(open());
    QueuePair qp = open_rd(node);
    Memory heard(node, sizeof(RemoteAddress)), near(node, kEach);
    near.fill(static_cast<std::uint32_t>(i));
    post_receive(qp, 1, {heard.sge()});
    send(owner, qp, 2, told.sge());
    EXPECT_TRUE(is_done(next(node.receives), 1, CompletionOp::kReceive, sizeof(RemoteAddress)));
    EXPECT_TRUE(next(b.sends).ok());
    RemoteAddress remote;
    std::memcpy(&remote, heard.bytes.data(), sizeof remote);
    remote.address += i * kEach;
    post(qp, to(owner, {.wr_id = 3, .op = SendOp::kWrite, .remote = remote}), {near.sge()});
    EXPECT_TRUE(is_done(next(node.sends), 3, CompletionOp::kWrite, kEach));
    EXPECT_TRUE(memory.holds(static_cast<std::uint32_t>(i), i * kEach, kEach));
  }
}

TEST_P(RdKeys, a_one_shot_key_serves_one_operation_of_whoever_comes_first) {
  // B4.10
  constexpr Access kOnce = Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead |
                           Access::kRemoteAtomic | Access::kOneShot;
  for (const std::uint32_t size : {8u, 100'000u}) {
    for (const SendOp op : {SendOp::kWrite, SendOp::kRead}) {
      QueuePair first = open_rd(a), second = open_rd(a), owner = open_rd(b);
      Memory far(b, size, kOnce), near(a, size);
      post(first, to(owner, {.wr_id = 1, .op = op, .remote = far.remote(1)}), {near.sge()});
      EXPECT_EQ(next(a.sends).status, kRefused) << "one byte outside does not use it";
      post(first, to(owner, {.wr_id = 2, .op = op, .remote = far.remote()}), {near.sge()});
      EXPECT_EQ(next(a.sends).status, kDone);
      post(second, to(owner, {.wr_id = 3, .op = op, .remote = far.remote()}), {near.sge()});
      EXPECT_EQ(next(a.sends).status, kRefused);
    }
  }
}

TEST_P(RdKeys, a_window_of_type_2_serves_the_queue_pair_that_bound_it) {
  QueuePair from = open_rd(a), owner = open_rd(b), other = open_rd(b);
  Memory far(b, 64, Access::kLocalWrite | Access::kWindowBind), near(a, 64);
  MemoryWindow window = must(b.pd.allocate_window(WindowType::kType2));
  SendRequest bind =
      window.bind_request(far.region, 0, 64, Access::kRemoteWrite | Access::kOneShot);
  must(owner.post_send(bind));
  EXPECT_TRUE(next(b.sends).ok());
  const RemoteAddress remote{far.region.address(), window.rkey()};
  post(from, to(other, {.wr_id = 1, .op = SendOp::kWrite, .remote = remote}), {near.sge()});
  EXPECT_EQ(next(a.sends).status, kRefused);
  post(from, to(owner, {.wr_id = 2, .op = SendOp::kWrite, .remote = remote}), {near.sge()});
  EXPECT_EQ(next(a.sends).status, kDone);
  post(from, to(owner, {.wr_id = 3, .op = SendOp::kWrite, .remote = remote}), {near.sge()});
  EXPECT_EQ(next(a.sends).status, kRefused);
}

TEST_P(RdKeys, an_immediate_that_waits_for_its_buffer_does_not_use_a_one_shot_key_twice) {
  // B4.10
  constexpr std::uint32_t kSize = 20'000;
  QueuePair from = open_rd(a), owner = open_rd(b);
  Memory far(b, kSize, Access::kLocalWrite | Access::kRemoteWrite | Access::kOneShot);
  Memory near(a, kSize);
  near.fill(6);
  post(from,
       to(owner,
          {.wr_id = 1, .op = SendOp::kWriteImmediate, .immediate = 5, .remote = far.remote()}),
       {near.sge()});
  EXPECT_TRUE(is_quiet(a.sends));
  post_receive(owner, 9);
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kWrite, kSize));
  EXPECT_TRUE(is_done(next(b.receives), 9, CompletionOp::kReceiveWriteImmediate, kSize));
  EXPECT_TRUE(far.holds(6));
}

TEST_P(RdKeys, rdma_on_unreliable_datagrams_is_refused_when_it_is_posted) {
  QueuePairOptions options;
  options.service = Service::kUnreliableDatagram;
  QueuePair qp = a.create(options);
  must(qp.activate(kRdKey));
  Memory near(a, 8), far(b, 8);
  for (const SendOp op : {SendOp::kWrite, SendOp::kRead, SendOp::kFetchAdd}) {
    const Sge sge = near.sge();
    SendRequest request{.op = op, .sges = {&sge, 1}, .remote = far.remote()};
    const auto refused = qp.post_send(request);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Errc::kNotSupported);
    EXPECT_NE(refused.error().message.find("the UD service has no"), std::string::npos);
  }
}

TEST_P(RdKeys, what_the_service_has_no_opcode_for_is_refused_when_it_is_posted) {
  QueuePair qp = open_rd(a);
  Memory near(a, 8);
  for (const SendOp op : {SendOp::kSendInvalidate, SendOp::kAtomicWrite}) {
    const auto refused = qp.post_send(SendRequest{.op = op});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Errc::kNotSupported);
  }
}

}  // namespace
}  // namespace weft::test

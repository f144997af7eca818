// Kinds of nodes over every path: I/O adapters, several controllers in one process, several ports.
#include <array>

#include "support/path_suite.h"

namespace weft::test {
namespace {

class PathNodes : public PathSuite {};
INSTANTIATE_TEST_SUITE_P(Over, PathNodes, testing::ValuesIn(two_devices()), way_name);

TEST_P(PathNodes, an_io_adapter_refuses_incoming_rdma) {
  // B1.2
  const Node adapter(open({.kind = NodeKind::kIoAdapter}));
  Memory near(a, 8), far(adapter, 8);
  near.fill(1), far.fill(2);
  for (const SendOp op : {SendOp::kWrite, SendOp::kRead, SendOp::kCompareSwap}) {
    Link link = connect(a, adapter);
    post(link.a, {.wr_id = 1, .op = op, .remote = far.remote()}, {near.sge()});
    EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kRemoteAccessError));
    EXPECT_EQ(next_event(adapter).kind, AsyncEventKind::kQueuePairAccessError);
  }
  EXPECT_TRUE(near.holds(1) && far.holds(2));
}

TEST_P(PathNodes, an_io_adapter_initiates_rdma_and_exchanges_messages) {
  // B1.2
  const Node adapter(open({.kind = NodeKind::kIoAdapter}));
  Link link = connect(adapter, b);
  Memory near(adapter, 64), far(b, 64), inbox(b, 64);
  near.fill(3);
  post(link.a, {.wr_id = 1, .op = SendOp::kWrite, .remote = far.remote()}, {near.sge()});
  EXPECT_TRUE(is_done(next(adapter.sends), 1, CompletionOp::kWrite, 64));
  EXPECT_TRUE(far.holds(3));
  far.fill(4);
  post(link.a, {.wr_id = 2, .op = SendOp::kRead, .remote = far.remote()}, {near.sge()});
  EXPECT_TRUE(is_done(next(adapter.sends), 2, CompletionOp::kRead, 64));
  EXPECT_TRUE(near.holds(4));
  post_receive(link.b, 50, {inbox.sge()});
  post(link.a, {.wr_id = 3, .op = SendOp::kSend}, {near.sge()});
  EXPECT_TRUE(is_done(next(b.receives), 50, CompletionOp::kReceive, 64));
  post_receive(link.a, 51, {near.sge()});
  inbox.fill(5);
  post(link.b, {.wr_id = 4, .op = SendOp::kSend}, {inbox.sge()});
  EXPECT_TRUE(is_done(next(adapter.receives), 51, CompletionOp::kReceive, 64));
  EXPECT_TRUE(near.holds(5));
}

TEST_P(PathNodes, an_io_adapter_has_few_queue_pairs) {
  // B1.2
  const Node adapter(open({.kind = NodeKind::kIoAdapter}));
  EXPECT_LT(adapter.device.info().max_queue_pairs, 10u);
  std::vector<QueuePair> all;
  for (std::uint32_t i = 0; i < adapter.device.info().max_queue_pairs; ++i) {
    all.push_back(adapter.create());
  }
  const auto more = adapter.pd.create_queue_pair(adapter.sends, adapter.receives);
  ASSERT_FALSE(more.has_value());
  EXPECT_EQ(more.error().code, Errc::kOutOfMemory);
  all.pop_back();
  EXPECT_NO_THROW(adapter.create());
}

TEST_P(PathNodes, a_process_uses_several_controllers_at_once) {
  // B1.1
  std::vector<Node> nodes;
  for (int i = 0; i < 4; ++i) nodes.emplace_back(open());
  std::vector<Memory> memories;
  for (const Node& node : nodes) memories.emplace_back(node, 4 * 8);
  std::vector<Link> links;
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      Memory from(nodes[i], 8);
      from.fill(static_cast<std::uint32_t>(10 * i + j));
      links.push_back(connect(nodes[i], nodes[j]));
      post(links.back().a, {.wr_id = j, .op = SendOp::kWrite, .remote = memories[j].remote(8 * i)},
           {from.sge()});
      EXPECT_TRUE(is_done(next(nodes[i].sends), j, CompletionOp::kWrite, 8));
    }
  }
  for (std::uint32_t i = 0; i < 4; ++i) {
    for (std::uint32_t j = 0; j < 4; ++j) EXPECT_TRUE(memories[j].holds(10 * i + j, 8 * i, 8));
  }
}

TEST_P(PathNodes, queue_pairs_use_the_port_that_they_are_given) {
  // B1.1
  const Node left(open({.ports = 3})), right(open({.ports = 2}));
  EXPECT_EQ(left.device.info().ports, 3);
  Memory near(left, 8), far(right, 64);
  std::uint32_t seed = 0;
  for (std::uint8_t p = 1; p <= 3; ++p) {
    for (std::uint8_t q = 1; q <= 2; ++q) {
      Link link{left.create(), right.create()};
      QueuePairAttributes at_left, at_right;
      at_left.port = p, at_right.port = q;
      const Endpoint end_a{left.device.address(p), link.a.number(), link.a.endpoint().psn};
      const Endpoint end_b{right.device.address(q), link.b.number(), link.b.endpoint().psn};
      must(link.a.connect(end_b, at_left));
      must(link.b.connect(end_a, at_right));
      EXPECT_EQ(link.a.endpoint().gid, left.device.address(p));
      near.fill(++seed);
      post(link.a, {.wr_id = seed, .op = SendOp::kWrite, .remote = far.remote(8 * seed)},
           {near.sge()});
      EXPECT_TRUE(is_done(next(left.sends), seed, CompletionOp::kWrite, 8));
      EXPECT_TRUE(far.holds(seed, 8 * seed, 8));
    }
  }
}

TEST_P(PathNodes, a_device_that_is_closed_is_given_up_by_its_peers) {
  auto gone = std::make_unique<Node>(network.open());
  QueuePairAttributes attributes;
  attributes.timeout = 10;
  attributes.retry_count = 2;
  auto link = std::make_unique<Link>(connect(a, *gone, {}, attributes));
  QueuePair left = std::move(link->a);
  Memory near(a, 8);
  auto far = std::make_unique<Memory>(*gone, 8);
  const RemoteAddress there = far->remote();
  post(left, {.wr_id = 1, .op = SendOp::kWrite, .remote = there}, {near.sge()});
  EXPECT_TRUE(wait_until([&] {
    gone->device.controller()->poll();
    return !far->is_zero() || near.is_zero();
  }));
  far.reset(), link.reset(), gone.reset();
  post(left, {.wr_id = 2, .op = SendOp::kWrite, .remote = there}, {near.sge()});
  for (;;) {
    const Completion completion = next(a.sends);
    if (completion.ok()) continue;
    EXPECT_EQ(completion.status, CompletionStatus::kRetryExceeded);
    break;
  }
}

}  // namespace
}  // namespace weft::test

// A consumer of kernel kind beside ordinary processes: on its own node, by copying, and on another
// one, by frames.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <vector>

#include "worlds/world.h"

namespace weft::worlds {
namespace {

using memory::Fault;
using sim::kPageBytes;
using sim::PageRights;
using verbs::AsyncEvent;
using verbs::AsyncEventKind;
using verbs::CompletionQueue;
using verbs::MemoryRegion;
using verbs::MemoryWindow;
using verbs::QueuePair;

constexpr std::uint64_t kBase = 0xFFFF'8000'0000'0000;  ///< where a kernel's addresses begin
constexpr Access kRights =
    Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead | Access::kWindowBind;

std::vector<std::byte> some_bytes(std::size_t n, unsigned seed) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 253 + seed);
  return bytes;
}

enum class Where : std::uint8_t { kSameNode, kOtherNode };

/// Node 0 has the kernel consumer; the process that it talks to is there too, or on node 1.
class KernelConsumers : public testing::TestWithParam<Where> {
 protected:
  struct Connection {
    QueuePair kernels, users;
  };

  static Scenario scenario() {
    Scenario drawn;
    drawn.seed = 11;
    for (std::uint8_t i = 1; i <= 2; ++i) {
      NodeSpec node;
      node.cards.push_back({.ports = {Gid::ipv4(10, 0, 0, i)}, .kernel_consumer = i == 1});
      drawn.nodes.push_back(node);
    }
    return drawn;
  }

  KernelConsumers() {
    world.start_nodes();
    kernels_cq = kernel().device().create_cq(64).value();
    users_cq = user_node().device(0).create_cq(64).value();
  }

  void TearDown() override {
    const auto& violation = world.stage().judge.violation();
    EXPECT_FALSE(violation) << violation->reason;
  }

  Node& user_node() { return world.node(GetParam() == Where::kSameNode ? 0 : 1); }
  KernelConsumer& kernel() { return world.node(0).kernel(0); }
  Process& user() { return user_node().process(0); }
  const verbs::ProtectionDomain& users_domain() { return user().domains[0]; }

  Connection connect() {
    Connection made{kernel().domain().create_queue_pair(*kernels_cq, *kernels_cq).value(),
                    users_domain().create_queue_pair(*users_cq, *users_cq).value()};
    const auto kernels_end = made.kernels.endpoint(), users_end = made.users.endpoint();
    EXPECT_TRUE(made.kernels.connect(users_end));
    EXPECT_TRUE(made.users.connect(kernels_end));
    return made;
  }

  /// Polls until there is one, while the world goes on.
  Completion next(const CompletionQueue& cq) {
    for (int turn = 0; turn < 100'000; ++turn) {
      if (const auto completion = cq.poll()) return *completion;
      for (std::size_t i = 0; i < 2; ++i) world.node(i).progress();
      world.step();
    }
    ADD_FAILURE() << "a completion did not come";
    return {};
  }
  CompletionStatus run(QueuePair& qp, const CompletionQueue& cq, SendOp op, const Sge& sge,
                       const RemoteAddress& remote = {}) {
    SendRequest request;
    request.op = op;
    request.sges = {&sge, 1};
    request.remote = remote;
    EXPECT_TRUE(qp.post_send(request));
    return next(cq).status;
  }

  /// A page of the user's, filled, and its region.
  MemoryRegion users_region(std::uint64_t* ea, unsigned seed) {
    *ea = user().shadow.allocate(kPageBytes);
    user().shadow.store(*ea, some_bytes(kPageBytes, seed));
    user().shadow.grant(*ea, kPageBytes);
    return users_domain().register_range(*ea, kPageBytes, kRights).value();
  }
  std::vector<std::byte> users_bytes(std::uint64_t ea, std::size_t n) {
    std::vector<std::byte> bytes(n);
    user().shadow.load(ea, bytes);
    return bytes;
  }
  std::vector<std::byte> kernels_bytes(std::uint64_t address, std::size_t n) {
    std::vector<std::byte> bytes(n);
    EXPECT_EQ(kernel().read(address, bytes), Fault::kNone);
    return bytes;
  }
  /// The next event about memory; those about queue pairs are passed over.
  std::optional<AsyncEvent> next_unmapped() {
    while (const auto event = kernel().next_event()) {
      if (event->kind == AsyncEventKind::kUnmappedPage) return event;
    }
    return {};
  }

  World world{scenario()};
  std::optional<CompletionQueue> kernels_cq, users_cq;
};
INSTANTIATE_TEST_SUITE_P(Where, KernelConsumers,
                         testing::Values(Where::kSameNode, Where::kOtherNode),
                         [](const auto& where) {
                           return where.param == Where::kSameNode ? "same_node" : "other_node";
                         });

TEST_P(KernelConsumers, post_and_poll_queue_pairs_as_processes_do) {
  // B1.9
  ASSERT_TRUE(kernel().map_page(kBase));
  ASSERT_TRUE(kernel().map_page(kBase + kPageBytes));
  const MemoryRegion region = kernel().register_virtual(kBase, 2 * kPageBytes, kRights).value();
  std::uint64_t ea = 0;
  const MemoryRegion theirs = users_region(&ea, 1);
  Connection link = connect();
  // It receives, into two pages, and sends.
  ASSERT_TRUE(link.kernels.post_receive(region.sge(96, kPageBytes), 5));
  EXPECT_EQ(run(link.users, *users_cq, SendOp::kSend, theirs.sge()), CompletionStatus::kSuccess);
  const Completion received = next(*kernels_cq);
  EXPECT_TRUE(received.ok() && received.wr_id == 5 && received.byte_count == kPageBytes);
  EXPECT_EQ(kernels_bytes(kBase + 96, kPageBytes), some_bytes(kPageBytes, 1));
  ASSERT_EQ(kernel().write(kBase, some_bytes(200, 2)), Fault::kNone);
  ASSERT_TRUE(link.users.post_receive(theirs.sge(0, 200), 6));
  EXPECT_EQ(run(link.kernels, *kernels_cq, SendOp::kSend, region.sge(0, 200)),
            CompletionStatus::kSuccess);
  EXPECT_TRUE(next(*users_cq).ok());
  EXPECT_EQ(users_bytes(ea, 200), some_bytes(200, 2));
  // It reads and writes their memory, and they its own.
  EXPECT_EQ(run(link.kernels, *kernels_cq, SendOp::kRead, region.sge(4000, 200), theirs.remote()),
            CompletionStatus::kSuccess);
  EXPECT_EQ(kernels_bytes(kBase + 4000, 200), some_bytes(200, 2));
  EXPECT_EQ(run(link.users, *users_cq, SendOp::kWrite, theirs.sge(0, 200), region.remote(300)),
            CompletionStatus::kSuccess);
  EXPECT_EQ(kernels_bytes(kBase + 300, 200), some_bytes(200, 2));
  EXPECT_NE(region.address(), kBase) << "peers are told nothing about its addresses";
}

TEST_P(KernelConsumers, bind_virtual_addresses_and_processes_do_not) {
  // B1.9, B4.7
  ASSERT_TRUE(kernel().map_page(kBase));
  const MemoryRegion region =
      kernel()
          .register_virtual(kBase, kPageBytes, Access::kLocalWrite | Access::kWindowBind)
          .value();
  MemoryWindow window = kernel().domain().allocate_window(verbs::WindowType::kType1).value();
  std::uint64_t ea = 0;
  const MemoryRegion theirs = users_region(&ea, 3);
  Connection link = connect();
  ASSERT_TRUE(link.kernels.post_send(window.bind_request(region, 100, 50, Access::kRemoteWrite)));
  EXPECT_TRUE(next(*kernels_cq).ok());
  const RemoteAddress bound{region.address() + 100, window.rkey()};
  EXPECT_EQ(run(link.users, *users_cq, SendOp::kWrite, theirs.sge(0, 50), bound),
            CompletionStatus::kSuccess);
  EXPECT_EQ(kernels_bytes(kBase + 100, 50), some_bytes(50, 3));
  EXPECT_EQ(run(link.users, *users_cq, SendOp::kWrite, theirs.sge(0, 51), bound),
            CompletionStatus::kRemoteAccessError);
  EXPECT_EQ(users_domain().register_range(kBase, 8, kRights).error().code, Errc::kBadAddress);
}

TEST_P(KernelConsumers, get_an_asynchronous_event_for_a_page_that_a_peer_wants_and_is_not_mapped) {
  // B1.9, B4.4: the peer's request fails; once the page is there, the next one does not.
  ASSERT_TRUE(kernel().map_page(kBase));
  const MemoryRegion region = kernel().register_virtual(kBase, 2 * kPageBytes, kRights).value();
  std::uint64_t ea = 0;
  const MemoryRegion theirs = users_region(&ea, 4);
  for (const SendOp op : {SendOp::kWrite, SendOp::kRead}) {
    Connection link = connect();
    EXPECT_EQ(run(link.users, *users_cq, op, theirs.sge(0, 100), region.remote(kPageBytes + 40)),
              CompletionStatus::kRemoteAccessError);
    const auto event = next_unmapped();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->address, kBase + kPageBytes + 40);
    while (next_unmapped()) continue;
  }
  ASSERT_TRUE(kernel().map_page(kBase + kPageBytes));
  Connection link = connect();
  EXPECT_EQ(run(link.users, *users_cq, SendOp::kWrite, theirs.sge(0, 100),
                region.remote(kPageBytes + 40)),
            CompletionStatus::kSuccess);
  EXPECT_EQ(kernels_bytes(kBase + kPageBytes + 40, 100), some_bytes(100, 4));
  EXPECT_FALSE(next_unmapped());
}

TEST_P(KernelConsumers, get_an_asynchronous_event_for_a_page_of_their_own_request) {
  // B1.9, B4.4
  ASSERT_TRUE(kernel().map_page(kBase));
  const MemoryRegion region = kernel().register_virtual(kBase, kPageBytes, kRights).value();
  std::uint64_t ea = 0;
  const MemoryRegion theirs = users_region(&ea, 5);
  kernel().unmap_page(kBase);
  for (const SendOp op : {SendOp::kWrite, SendOp::kRead, SendOp::kSend}) {
    Connection link = connect();
    ASSERT_TRUE(link.users.post_receive(theirs.sge(), 6));
    EXPECT_EQ(run(link.kernels, *kernels_cq, op, region.sge(8, 64), theirs.remote()),
              CompletionStatus::kLocalProtectionError)
        << to_string(op);
    const auto event = next_unmapped();
    ASSERT_TRUE(event) << to_string(op);
    EXPECT_EQ(event->address, kBase + 8);
    while (next_unmapped()) continue;
    EXPECT_EQ(users_bytes(ea, 64), some_bytes(64, 5)) << "and nothing was written";
  }
}

TEST_P(KernelConsumers, may_map_the_page_in_their_default_handler_and_the_access_goes_on) {
  // B1.9, B4.4: the handler learns of the address by the event.
  const MemoryRegion region = kernel().register_virtual(kBase, 2 * kPageBytes, kRights).value();
  std::uint64_t ea = 0;
  const MemoryRegion theirs = users_region(&ea, 6);
  std::vector<std::uint64_t> told;
  kernel().set_default_handler([&](KernelConsumer& consumer) {
    const auto event = consumer.next_event();
    ASSERT_TRUE(event);
    ASSERT_EQ(event->kind, AsyncEventKind::kUnmappedPage);
    told.push_back(event->address);
    EXPECT_TRUE(consumer.map_page(event->address & ~(kPageBytes - 1)));
  });
  Connection link = connect();
  EXPECT_EQ(run(link.users, *users_cq, SendOp::kWrite, theirs.sge(0, 1000),
                region.remote(kPageBytes - 500)),
            CompletionStatus::kSuccess);
  EXPECT_EQ(told, (std::vector{kBase + kPageBytes - 500, kBase + kPageBytes}));
  EXPECT_EQ(kernels_bytes(kBase + kPageBytes - 500, 1000), some_bytes(1000, 6));
  EXPECT_FALSE(kernel().next_event());
  kernel().set_default_handler(nullptr);
}

TEST_P(KernelConsumers, keep_pages_read_only_that_they_mapped_so) {
  // B1.9
  ASSERT_TRUE(kernel().map_page(kBase, PageRights::kRead));
  EXPECT_FALSE(kernel().register_virtual(kBase, kPageBytes, kRights));
  const MemoryRegion region =
      kernel().register_virtual(kBase, kPageBytes, Access::kRemoteRead).value();
  std::uint64_t ea = 0;
  const MemoryRegion theirs = users_region(&ea, 7);
  Connection link = connect();
  EXPECT_EQ(run(link.users, *users_cq, SendOp::kRead, theirs.sge(0, 64), region.remote()),
            CompletionStatus::kSuccess);
  EXPECT_EQ(run(link.users, *users_cq, SendOp::kWrite, theirs.sge(0, 64), region.remote()),
            CompletionStatus::kRemoteAccessError);
}

}  // namespace
}  // namespace weft::worlds

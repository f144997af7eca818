// Memory that the program unmapped although it was registered: an error for whoever uses it, never
// a signal, on every path.
#include <sys/mman.h>

#include <cstring>

#include "obs/counters.h"
#include "support/path_suite.h"

namespace weft::test {
namespace {

/// Registered pages that can be unmapped under the region.
class Pages {
 public:
  Pages(const Node& node, std::size_t size)
      : size_(size),
        at_(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
        region(must(node.pd.register_memory(at_, size, kEverything))) {}
  ~Pages() { vanish(); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  void vanish() {
    if (at_ != nullptr) munmap(at_, size_);
    at_ = nullptr;
  }

 private:
  const std::size_t size_;
  void* at_;

 public:
  MemoryRegion region;
};

constexpr std::size_t kSize = 64 * 1024;

class PathVanished : public PathSuite {
 protected:
  void expect_vanished_at(const Node& node) {
    EXPECT_TRUE(wait_until([&] {
      return node.device.controller()->counters().get(obs::Counter::kVanishedMemory) > 0;
    }));
  }
};
INSTANTIATE_TEST_SUITE_P(Over, PathVanished, testing::ValuesIn(two_devices()), way_name);

TEST_P(PathVanished, a_peer_that_uses_it_gets_a_remote_access_error) {
  // B4.9: the owner does not crash.
  for (const SendOp op : {SendOp::kWrite, SendOp::kRead, SendOp::kCompareSwap}) {
    SCOPED_TRACE(to_string(op));
    Link link = connect();
    Memory near(a, kSize);
    Pages far(b, kSize);
    far.vanish();
    const auto length = op == SendOp::kCompareSwap ? 8u : static_cast<std::uint32_t>(kSize);
    post(link.a, {.wr_id = 1, .op = op, .remote = far.region.remote()}, {near.sge(0, length)});
    EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kRemoteAccessError));
    EXPECT_TRUE(wait_until([&] { return link.b.state() == QpState::kError; }));
    EXPECT_EQ(next_event(b).kind, AsyncEventKind::kQueuePairAccessError);
  }
  expect_vanished_at(b);
}

TEST_P(PathVanished, a_receive_buffer_of_it_fails_both_sides) {
  Link link = connect();
  Memory near(a, 64);
  Pages far(b, kSize);
  post_receive(link.b, 50, {far.region.sge()});
  far.vanish();
  post(link.a, {.wr_id = 1, .op = SendOp::kSend}, {near.sge()});
  EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kRemoteOperationError));
  EXPECT_TRUE(has_failed(next(b.receives), 50, CompletionStatus::kLocalProtectionError));
}

TEST_P(PathVanished, a_gather_list_of_it_fails_the_sender_alone) {
  for (const SendOp op : {SendOp::kWrite, SendOp::kSend}) {
    SCOPED_TRACE(to_string(op));
    Link link = connect();
    Memory far(b, kSize);
    Pages near(a, kSize);
    near.vanish();
    post_receive(link.b, 50, {far.sge()});
    post(link.a, {.wr_id = 1, .op = op, .remote = far.remote()}, {near.region.sge()});
    post(link.a, {.wr_id = 2, .op = op, .remote = far.remote()}, {near.region.sge()});
    EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kLocalProtectionError));
    EXPECT_TRUE(has_failed(next(a.sends), 2, CompletionStatus::kFlushed));
    EXPECT_TRUE(wait_until([&] { return link.a.state() == QpState::kError; }));
    EXPECT_EQ(link.b.state(), QpState::kReadyToSend) << "the peer did nothing wrong";
  }
}

TEST_P(PathVanished, a_scatter_list_of_it_fails_the_reader_alone) {
  for (const SendOp op : {SendOp::kRead, SendOp::kFetchAdd}) {
    SCOPED_TRACE(to_string(op));
    Link link = connect();
    Memory far(b, kSize);
    Pages near(a, kSize);
    near.vanish();
    const auto length = op == SendOp::kFetchAdd ? 8u : static_cast<std::uint32_t>(kSize);
    post(link.a, {.wr_id = 1, .op = op, .remote = far.remote()}, {near.region.sge(0, length)});
    EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kLocalProtectionError));
    EXPECT_EQ(link.b.state(), QpState::kReadyToSend) << "the peer did nothing wrong";
  }
}

TEST_P(PathVanished, an_unreliable_sender_of_it_stops_until_it_is_resumed) {
  QueuePairOptions options;
  options.service = Service::kUnreliableConnection;
  Link link = connect(options);
  Memory inbox(b, kSize), good(a, 8);
  Pages near(a, kSize);
  near.vanish();
  post_receive(link.b, 50, {inbox.sge()});
  post(link.a, {.wr_id = 1, .op = SendOp::kSend}, {near.region.sge(0, 8)});
  EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kLocalProtectionError));
  EXPECT_TRUE(wait_until([&] { return link.a.state() == QpState::kSendQueueError; }));
  must(link.a.modify(QpState::kReadyToSend));
  good.fill(1);
  post(link.a, {.wr_id = 2, .op = SendOp::kSend}, {good.sge()});
  EXPECT_TRUE(is_done(next(b.receives), 50, CompletionOp::kReceive, 8));
  EXPECT_TRUE(inbox.holds(1, 0, 8));
}

}  // namespace
}  // namespace weft::test

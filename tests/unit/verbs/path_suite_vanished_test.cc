// Memory that the program unmapped although it was registered: an error for whoever uses it, never
// a signal, on every path.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <initializer_list>
#include <stdexcept>
#include <utility>
#include <vector>

#include "obs/counters.h"
#include "support/path_suite.h"

namespace weft::test {
namespace {

/// How memory goes. Its addresses stay taken, so that nothing else turns up there meanwhile.
enum class Vanish : std::uint8_t {
  kUnmapped,   ///< nothing may be touched there any more: SIGSEGV
  kTruncated,  ///< the file behind it became shorter: SIGBUS
};

/// Registered pages that can vanish under the region.
class Pages {
 public:
  Pages(const Node& node, Vanish how)
      : how_(how),
        file_(make_file()),
        at_(mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0)),
        region(must(node.pd.register_memory(at_, kSize, kEverything))) {}
  ~Pages() {
    munmap(at_, kSize);
    close(file_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  void vanish() {
    if (how_ == Vanish::kTruncated) {
      ASSERT_EQ(ftruncate(file_, 0), 0);
    } else {
      ASSERT_EQ(mmap(at_, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), at_);
    }
  }

  static constexpr std::size_t kSize = 64 * 1024;

 private:
  static int make_file() {
    const int file = memfd_create("weft-test", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, kSize) != 0) throw std::runtime_error("no memfd");
    return file;
  }

  const Vanish how_;
  const int file_;
  void* const at_;

 public:
  MemoryRegion region;
};

constexpr std::size_t kSize = Pages::kSize;

class PathVanished : public PathSuite {
 protected:
  static constexpr std::array kHow{Vanish::kUnmapped, Vanish::kTruncated};

  static std::vector<std::pair<SendOp, Vanish>> combine(std::initializer_list<SendOp> ops) {
    std::vector<std::pair<SendOp, Vanish>> all;
    for (const SendOp op : ops) {
      for (const Vanish how : kHow) all.emplace_back(op, how);
    }
    return all;
  }

  void expect_vanished_at(const Node& node) {
    EXPECT_TRUE(wait_until([&] {
      return node.device.controller()->counters().get(obs::Counter::kVanishedMemory) > 0;
    }));
  }
};
INSTANTIATE_TEST_SUITE_P(Over, PathVanished, testing::ValuesIn(two_devices()), way_name);

TEST_P(PathVanished, a_peer_that_uses_it_gets_a_remote_access_error) {
  // B4.9: the owner does not crash.
  for (const auto& [op, how] : combine({SendOp::kWrite, SendOp::kRead, SendOp::kCompareSwap})) {
    SCOPED_TRACE(to_string(op));
    Link link = connect();
    Memory near(a, kSize);
    Pages far(b, how);
    far.vanish();
    const auto length = op == SendOp::kCompareSwap ? 8u : static_cast<std::uint32_t>(kSize);
    post(link.a, {.wr_id = 1, .op = op, .remote = far.region.remote()}, {near.sge(0, length)});
    EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kRemoteAccessError));
    EXPECT_TRUE(wait_until([&] { return link.b.state() == QpState::kError; }));
    EXPECT_EQ(next_event(b).kind, AsyncEventKind::kQueuePairAccessError);
  }
  expect_vanished_at(b);
}

TEST_P(PathVanished, a_read_of_it_fails_also_before_one_that_is_refused) {
  // Over frames the refusal of the second leaves in the same call as the answer to the first, which
  // cannot be read.
  for (const Vanish how : kHow) {
    Link link = connect();
    Memory near(a, 64);
    Pages far(b, how);
    far.vanish();
    const RemoteAddress strange{far.region.address(), RemoteKey(0x12345)};
    post(link.a, {.wr_id = 1, .op = SendOp::kRead, .remote = far.region.remote()},
         {near.sge(0, 8)});
    post(link.a, {.wr_id = 2, .op = SendOp::kRead, .remote = strange}, {near.sge(8, 8)});
    EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kRemoteAccessError));
    EXPECT_TRUE(has_failed(next(a.sends), 2, CompletionStatus::kFlushed));
    EXPECT_TRUE(wait_until([&] { return link.b.state() == QpState::kError; }));
  }
}

TEST_P(PathVanished, its_owner_counts_each_access_on_every_service) {
  for (const Service service : {Service::kReliableConnection, Service::kUnreliableConnection}) {
    for (const SendOp op : {SendOp::kWrite, SendOp::kSend}) {
      SCOPED_TRACE(to_string(op));
      QueuePairOptions options;
      options.service = service;
      Link link = connect(options);
      Memory near(a, 64);
      Pages far(b, Vanish::kUnmapped);
      post_receive(link.b, 50, {far.region.sge()});
      far.vanish();
      const obs::Counters& counters = b.device.controller()->counters();
      const std::uint64_t before = counters.get(obs::Counter::kVanishedMemory);
      post(link.a, {.wr_id = 1, .op = op, .remote = far.region.remote()}, {near.sge()});
      EXPECT_TRUE(wait_until([&] { return counters.get(obs::Counter::kVanishedMemory) > before; }));
      pump_a_while();
      EXPECT_EQ(counters.get(obs::Counter::kVanishedMemory), before + 1);
    }
  }
}

TEST_P(PathVanished, a_receive_buffer_of_it_fails_both_sides) {
  for (const Vanish how : kHow) {
    Link link = connect();
    Memory near(a, 64);
    Pages far(b, how);
    post_receive(link.b, 50, {far.region.sge()});
    far.vanish();
    post(link.a, {.wr_id = 1, .op = SendOp::kSend}, {near.sge()});
    EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kRemoteOperationError));
    EXPECT_TRUE(has_failed(next(b.receives), 50, CompletionStatus::kLocalProtectionError));
  }
}

TEST_P(PathVanished, a_gather_list_of_it_fails_the_sender_alone) {
  for (const auto& [op, how] : combine({SendOp::kWrite, SendOp::kSend})) {
    SCOPED_TRACE(to_string(op));
    Link link = connect();
    Memory far(b, kSize);
    Pages near(a, how);
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

TEST_P(PathVanished, what_cannot_be_read_is_never_refused) {
  // It is never sent: whatever is wrong at the peer, the peer does not learn of it.
  for (const SendOp op : {SendOp::kWrite, SendOp::kSend}) {
    SCOPED_TRACE(to_string(op));
    Link link = connect();
    Memory far(b, 64);
    Pages near(a, Vanish::kUnmapped);
    near.vanish();
    Sge bad = far.sge();
    bad.lkey = LocalKey(0x777);
    post_receive(link.b, 50, {bad});
    post(link.a, {.wr_id = 1, .op = op, .remote = {far.region.address(), RemoteKey(0x12345)}},
         {near.region.sge(0, 8)});
    EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kLocalProtectionError));
    pump_a_while();
    EXPECT_EQ(link.b.state(), QpState::kReadyToSend);
    EXPECT_TRUE(is_quiet(b.receives));
  }
}

TEST_P(PathVanished, a_scatter_list_of_it_fails_the_reader_alone) {
  for (const auto& [op, how] : combine({SendOp::kRead, SendOp::kFetchAdd})) {
    SCOPED_TRACE(to_string(op));
    Link link = connect();
    Memory far(b, kSize);
    Pages near(a, how);
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
  for (const Vanish how : kHow) {
    Link link = connect(options);
    Memory inbox(b, kSize), good(a, 8);
    Pages near(a, how);
    near.vanish();
    post_receive(link.b, 50, {inbox.sge()});
    post(link.a, {.wr_id = 1, .op = SendOp::kSend}, {near.region.sge(0, 8)});
    EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kLocalProtectionError));
    EXPECT_TRUE(wait_until([&] { return link.a.state() == QpState::kSendQueueError; }));
    must(link.a.modify(QpState::kReadyToSend));
    good.fill(1);
    post(link.a, {.wr_id = 2, .op = SendOp::kSend}, {good.sge()});
    EXPECT_TRUE(is_done(next(b.receives), 50, CompletionOp::kReceive, 8));
    EXPECT_TRUE(is_done(next(a.sends), 2, CompletionOp::kSend, 8));
    EXPECT_TRUE(inbox.holds(1, 0, 8));
  }
}

}  // namespace
}  // namespace weft::test

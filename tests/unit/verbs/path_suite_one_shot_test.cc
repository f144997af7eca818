// One-shot keys over every path, of regions and of windows: one whole operation, and no other,
// whatever its size and whatever was refused before it.
#include <array>
#include <optional>

#include "support/path_suite.h"

namespace weft::test {
namespace {

/// What a one-shot key belongs to.
enum class KeyOf : std::uint8_t { kRegion, kType1, kType2 };
constexpr std::array kAllKeys{KeyOf::kRegion, KeyOf::kType1, KeyOf::kType2};
constexpr std::array kSharedKeys{KeyOf::kRegion, KeyOf::kType1};  ///< for any queue pair

class PathOneShot : public PathSuite {
 protected:
  static constexpr Access kPeers =
      Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic | Access::kOneShot;

  /// Memory of `b` behind such a key. A window's region grants its peers nothing by itself.
  struct Once {
    Once(PathOneShot& suite, KeyOf key, std::size_t size, QueuePair& owner)
        : memory(suite.b, size,
                 key == KeyOf::kRegion ? Access::kLocalWrite | kPeers
                                       : Access::kLocalWrite | Access::kWindowBind) {
      if (key == KeyOf::kRegion) return;
      window.emplace(must(suite.b.pd.allocate_window(key == KeyOf::kType1 ? WindowType::kType1
                                                                          : WindowType::kType2)));
      suite.bind(owner, *window, memory);
    }
    RemoteAddress remote(std::uint64_t offset = 0) const {
      return window ? RemoteAddress{memory.region.address() + offset, window->rkey()}
                    : memory.remote(offset);
    }

    Memory memory;
    std::optional<MemoryWindow> window;
  };

  void bind(QueuePair& owner, MemoryWindow& window, const Memory& memory) {
    SendRequest request = window.bind_request(memory.region, 0, memory.bytes.size(), kPeers);
    request.wr_id = 900;
    must(owner.post_send(request));
    EXPECT_TRUE(is_done(next(b.sends), 900, CompletionOp::kBind, 0));
  }

  CompletionStatus run(Link& link, SendOp op, const RemoteAddress& remote, const Sge& sge) {
    post(link.a, {.wr_id = 1, .op = op, .remote = remote}, {sge});
    return next(a.sends).status;
  }
};
INSTANTIATE_TEST_SUITE_P(Over, PathOneShot, testing::ValuesIn(all_ways()), way_name);

TEST_P(PathOneShot, a_key_used_twice_is_refused) {
  // B4.10
  for (const KeyOf key : kAllKeys) {
    for (const SendOp op : {SendOp::kWrite, SendOp::kRead, SendOp::kFetchAdd}) {
      Link link = connect();
      Once once(*this, key, 16, link.b);
      Memory near(a, 8);
      near.fill(1);
      EXPECT_EQ(run(link, op, once.remote(), near.sge()), kDone);
      const auto after_first = once.memory.bytes;
      near.fill(2);
      ASSERT_EQ(run(link, op, once.remote(), near.sge()), kRefused);
      EXPECT_EQ(once.memory.bytes, after_first);
      EXPECT_TRUE(wait_until([&] { return link.b.state() == QpState::kError; }));
    }
  }
}

TEST_P(PathOneShot, a_key_used_by_one_queue_pair_is_spent_for_all) {
  // B4.10
  for (const KeyOf key : kSharedKeys) {
    Link first = connect(), second = connect();
    Once once(*this, key, 8, first.b);
    Memory near(a, 8);
    EXPECT_EQ(run(first, SendOp::kRead, once.remote(), near.sge()), kDone);
    EXPECT_EQ(run(second, SendOp::kRead, once.remote(), near.sge()), kRefused);
  }
}

TEST_P(PathOneShot, one_operation_may_take_any_number_of_frames) {
  // B4.10: the whole operation is one use, however it travels.
  QueuePairAttributes attributes;
  attributes.path_mtu = Mtu::k256;
  for (const KeyOf key : kAllKeys) {
    for (const SendOp op : {SendOp::kWrite, SendOp::kRead}) {
      Link link = connect({}, attributes);
      constexpr std::uint32_t kSize = 300'000;
      Once once(*this, key, kSize, link.b);
      Memory near(a, kSize);
      EXPECT_EQ(run(link, op, once.remote(), near.sge()), kDone) << to_string(op);
      EXPECT_EQ(run(link, op, once.remote(), near.sge(0, 8)), kRefused) << to_string(op);
    }
  }
}

TEST_P(PathOneShot, halves_of_the_range_are_two_operations) {
  // B4.10
  for (const KeyOf key : kAllKeys) {
    for (const SendOp op : {SendOp::kWrite, SendOp::kRead}) {
      Link link = connect();
      Once once(*this, key, 16, link.b);
      Memory near(a, 16);
      EXPECT_EQ(run(link, op, once.remote(0), near.sge(0, 8)), kDone) << to_string(op);
      EXPECT_EQ(run(link, op, once.remote(8), near.sge(8, 8)), kRefused) << to_string(op);
    }
  }
}

TEST_P(PathOneShot, a_refused_attempt_does_not_use_the_key_up) {
  // B4.10
  for (const KeyOf key : kSharedKeys) {
    Link clumsy = connect(), careful = connect();
    Once once(*this, key, 8, careful.b);
    Memory near(a, 16);
    EXPECT_EQ(run(clumsy, SendOp::kWrite, once.remote(), near.sge(0, 9)), kRefused);
    EXPECT_EQ(run(careful, SendOp::kWrite, once.remote(), near.sge(0, 8)), kDone);
  }
}

TEST_P(PathOneShot, a_key_stays_spent_when_the_queue_pair_is_connected_anew) {
  // B4.10
  for (const KeyOf key : kSharedKeys) {
    for (const SendOp op : {SendOp::kWrite, SendOp::kRead}) {
      Link link = connect();
      Once once(*this, key, 8, link.b);
      Memory near(a, 8);
      EXPECT_EQ(run(link, op, once.remote(), near.sge()), kDone);
      must(link.a.modify(QpState::kReset));
      must(link.b.modify(QpState::kReset));
      reconnect(link);
      EXPECT_EQ(run(link, op, once.remote(), near.sge()), kRefused) << to_string(op);
    }
  }
}

TEST_P(PathOneShot, a_window_bound_again_serves_once_more_under_its_new_key) {
  // B4.10, B4.8
  Link owner = connect();
  Once once(*this, KeyOf::kType1, 8, owner.b);
  Memory near(a, 8);
  for (std::uint32_t turn = 0; turn < 3; ++turn) {
    Link link = connect();
    near.fill(turn);
    const RemoteAddress remote = once.remote();
    EXPECT_EQ(run(link, SendOp::kWrite, remote, near.sge()), kDone);
    EXPECT_EQ(run(link, SendOp::kWrite, remote, near.sge()), kRefused);
    EXPECT_TRUE(once.memory.holds(turn));
    bind(owner.b, *once.window, once.memory);
  }
}

TEST_P(PathOneShot, a_spent_window_of_type_2_is_invalidated_and_bound_again) {
  // B4.10
  Link link = connect();
  Once once(*this, KeyOf::kType2, 8, link.b);
  Memory near(a, 8);
  for (std::uint32_t turn = 0; turn < 3; ++turn) {
    near.fill(turn);
    EXPECT_EQ(run(link, SendOp::kWrite, once.remote(), near.sge()), kDone);
    EXPECT_TRUE(once.memory.holds(turn));
    post(link.b,
         {.wr_id = 5, .op = SendOp::kLocalInvalidate, .invalidate_key = once.window->rkey()});
    EXPECT_TRUE(is_done(next(b.sends), 5, CompletionOp::kLocalInvalidate, 0));
    bind(link.b, *once.window, once.memory);
  }
}

}  // namespace
}  // namespace weft::test

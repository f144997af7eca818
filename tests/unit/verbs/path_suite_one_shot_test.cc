// One-shot keys over every path: one whole operation, and no other, whatever its size and whatever
// was refused before it.
#include "support/path_suite.h"

namespace weft::test {
namespace {

class PathOneShot : public PathSuite {
 protected:
  static constexpr Access kOnce = Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead |
                                  Access::kRemoteAtomic | Access::kOneShot;

  CompletionStatus run(Link& link, SendOp op, const RemoteAddress& remote, const Sge& sge) {
    post(link.a, {.wr_id = 1, .op = op, .remote = remote}, {sge});
    return next(a.sends).status;
  }
};
INSTANTIATE_TEST_SUITE_P(Over, PathOneShot, testing::ValuesIn(all_ways()), way_name);

TEST_P(PathOneShot, a_key_used_twice_is_refused) {
  // B4.10
  for (const SendOp op : {SendOp::kWrite, SendOp::kRead, SendOp::kFetchAdd}) {
    Link link = connect();
    Memory once(b, 16, kOnce), near(a, 8);
    near.fill(1);
    EXPECT_EQ(run(link, op, once.remote(), near.sge()), kDone);
    const auto after_first = once.bytes;
    near.fill(2);
    EXPECT_EQ(run(link, op, once.remote(), near.sge()), kRefused);
    EXPECT_EQ(once.bytes, after_first);
    EXPECT_TRUE(wait_until([&] { return link.b.state() == QpState::kError; }));
  }
}

TEST_P(PathOneShot, a_key_used_by_one_queue_pair_is_spent_for_all) {
  // B4.10
  Link first = connect(), second = connect();
  Memory once(b, 8, kOnce), near(a, 8);
  EXPECT_EQ(run(first, SendOp::kRead, once.remote(), near.sge()), kDone);
  EXPECT_EQ(run(second, SendOp::kRead, once.remote(), near.sge()), kRefused);
}

TEST_P(PathOneShot, one_operation_may_take_any_number_of_frames) {
  // B4.10: the whole operation is one use, however it travels.
  QueuePairAttributes attributes;
  attributes.path_mtu = Mtu::k256;
  for (const SendOp op : {SendOp::kWrite, SendOp::kRead}) {
    Link link = connect({}, attributes);
    constexpr std::uint32_t kSize = 300'000;
    Memory once(b, kSize, kOnce), near(a, kSize);
    EXPECT_EQ(run(link, op, once.remote(), near.sge()), kDone) << to_string(op);
    EXPECT_EQ(run(link, op, once.remote(), near.sge(0, 8)), kRefused) << to_string(op);
  }
}

TEST_P(PathOneShot, halves_of_the_range_are_two_operations) {
  // B4.10
  for (const SendOp op : {SendOp::kWrite, SendOp::kRead}) {
    Link link = connect();
    Memory once(b, 16, kOnce), near(a, 16);
    EXPECT_EQ(run(link, op, once.remote(0), near.sge(0, 8)), kDone) << to_string(op);
    EXPECT_EQ(run(link, op, once.remote(8), near.sge(8, 8)), kRefused) << to_string(op);
  }
}

TEST_P(PathOneShot, a_refused_attempt_does_not_use_the_key_up) {
  // B4.10
  Link clumsy = connect(), careful = connect();
  Memory once(b, 8, kOnce), near(a, 16);
  EXPECT_EQ(run(clumsy, SendOp::kWrite, once.remote(), near.sge(0, 9)), kRefused);
  EXPECT_EQ(run(careful, SendOp::kWrite, once.remote(), near.sge(0, 8)), kDone);
}

TEST_P(PathOneShot, a_key_stays_spent_when_the_queue_pair_is_connected_anew) {
  // B4.10
  for (const SendOp op : {SendOp::kWrite, SendOp::kRead}) {
    Link link = connect();
    Memory once(b, 8, kOnce), near(a, 8);
    EXPECT_EQ(run(link, op, once.remote(), near.sge()), kDone);
    must(link.a.modify(QpState::kReset));
    must(link.b.modify(QpState::kReset));
    reconnect(link);
    EXPECT_EQ(run(link, op, once.remote(), near.sge()), kRefused) << to_string(op);
  }
}

}  // namespace
}  // namespace weft::test

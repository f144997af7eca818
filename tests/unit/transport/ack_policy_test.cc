// Which messages ask for an acknowledgement: those that somebody waits for, and enough of the
// others (B2.1).
#include "transport/ack_policy.h"

#include "unit/transport/requester_fixture.h"

namespace weft::test {
namespace {

using transport::AckRequests;

class AckRequestsOf : public Requester {
 protected:
  /// A message was acknowledged after 20 us; then the usual number is in use.
  void SetUp() override {
    end.qp.attributes.timeout = 14;
    post(1, SendOp::kSend, 10);
    sent();
    end.now() += 20'000;
    ack(0);
    ASSERT_EQ(completed(), Ids{1});
  }
  /// Sends what waits; for each frame, whether it asks.
  std::vector<bool> asks() {
    std::vector<bool> out;
    for (const Frame& frame : end.requests()) out.push_back(frame.packet().bth.ack_request);
    return out;
  }
  void post_silent(std::uint32_t length = 10) { post(9, SendOp::kSend, length, {.flags = {}}); }
};

TEST_F(AckRequestsOf, a_short_message_without_completion_does_not_ask) {
  post_silent();
  post(2, SendOp::kSend, 10);
  EXPECT_EQ(asks(), (std::vector{false, true}));
  ack(2);
  EXPECT_EQ(completed(), Ids{2});
  EXPECT_TRUE(transport::drained(end.requester));
}

TEST_F(AckRequestsOf, a_long_one_does) {
  post_silent(AckRequests::kShortBytes + 1);
  EXPECT_TRUE(asks().back());
}

TEST_F(AckRequestsOf, does_as_long_as_no_round_trip_is_known) {
  RcEnd fresh{requester_setup()};
  const Sge one = fresh.sge(0, 10);
  ASSERT_TRUE(fresh.post_send({.flags = {}, .sges = {&one, 1}}));
  EXPECT_TRUE(fresh.requests().front().packet().bth.ack_request);
}

TEST_F(AckRequestsOf, one_of_so_many_asks) {
  std::size_t since = 0, asked = 0;
  for (std::uint32_t at = 1; at <= 10 * AckRequests::kEveryFrames; ++at) {
    post_silent();
    const auto one = asks();
    ASSERT_EQ(one.size(), 1u);
    since = one[0] ? 0 : since + 1;
    asked += one[0] ? 1 : 0;
    ASSERT_LT(since, AckRequests::kEveryFrames);
    if (one[0]) ack(at);
  }
  EXPECT_LE(asked, 20u) << "but no more than needed";
  EXPECT_EQ(end.counted(obs::Counter::kRetransmissions), 0u);
}

TEST_F(AckRequestsOf, nothing_stays_unasked_for_long_while_messages_follow) {
  post_silent();
  EXPECT_EQ(asks(), std::vector{false});
  end.now() += AckRequests::kLongestSilence_ns;
  post_silent();
  EXPECT_EQ(asks(), std::vector{true});
}

TEST_F(AckRequestsOf, a_queue_that_fills_asks_before_it_is_full) {
  std::uint32_t posted = 0;
  for (; posted < end.qp.sq.capacity(); ++posted) post_silent(0);
  const auto all = asks();
  ASSERT_EQ(all.size(), posted);
  EXPECT_TRUE(all.back());
}

TEST_F(AckRequestsOf, a_probe_asks_when_nothing_follows_and_the_next_message_asks_itself) {
  // B2.1
  post_silent();
  EXPECT_EQ(asks(), std::vector{false});
  end.advance_to(next_deadline(end.requester));
  EXPECT_EQ(asks(), std::vector{true}) << "the same frame once more";
  ack(1);
  EXPECT_TRUE(transport::drained(end.requester));
  EXPECT_EQ(next_deadline(end.requester), kNever);
  post_silent();
  EXPECT_EQ(asks(), std::vector{true}) << "the program sends one at a time";
  ack(2);
  post_silent();
  EXPECT_EQ(asks(), std::vector{false}) << "perhaps it does so no longer";
  end.advance_to(next_deadline(end.requester));
  EXPECT_EQ(asks(), std::vector{true});
  ack(3);
  for (std::uint32_t at = 4; at < 7; ++at) {
    post_silent();
    EXPECT_EQ(asks(), std::vector{true}) << at << ": it does";
    ack(at);
  }
}

TEST_F(AckRequestsOf, what_is_sent_again_asks) {
  post_silent();
  post_silent();
  EXPECT_EQ(asks(), (std::vector{false, false}));
  nak(1, NakCode::kPsnSequence);
  EXPECT_EQ(asks(), (std::vector{true, true}));
  ack(2);
  EXPECT_TRUE(transport::drained(end.requester));
}

TEST_F(AckRequestsOf, only_an_answer_that_was_asked_for_makes_others_wait) {
  post_silent();
  asks();
  post_silent();
  EXPECT_FALSE(transport::may_gather(end.requester, end.qp, false));
  EXPECT_TRUE(transport::may_gather(end.requester, end.qp, true)) << "it sends in bursts";
  post(2, SendOp::kSend, 10);
  asks();
  post_silent();
  EXPECT_TRUE(transport::may_gather(end.requester, end.qp, false));
  post(3, SendOp::kDelay, 0, {.delay_ns = 1'000});
  EXPECT_FALSE(transport::may_gather(end.requester, end.qp, false)) << "its time begins now";
}

}  // namespace
}  // namespace weft::test

#include "queue/completion_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft::queue {
namespace {

class Listener final : public CompletionListener {
 public:
  void on_completion_event(CompletionQueue&) override { ++events; }
  void on_completion_overrun(CompletionQueue&) override { ++overruns; }
  int events = 0;
  int overruns = 0;
};

class CompletionQueueTest : public testing::Test {
 protected:
  void push(std::uint64_t wr_id, bool solicited = false,
            CompletionStatus status = CompletionStatus::kSuccess) {
    Completion completion;
    completion.wr_id = wr_id;
    completion.status = status;
    cq.push(completion, solicited);
  }
  bool pass_to_poller(std::uint64_t wr_id, Completion* out) {
    return cq.pass_to_poller(out, [&](Completion& slot) {
      slot = {};
      slot.wr_id = wr_id;
    });
  }
  std::vector<std::uint64_t> poll(std::size_t most = 100) {
    std::vector<Completion> out(most);
    out.resize(cq.poll(out));
    std::vector<std::uint64_t> ids;
    for (const Completion& one : out) ids.push_back(one.wr_id);
    return ids;
  }

  using Ids = std::vector<std::uint64_t>;
  Listener listener;
  CompletionQueue cq{5, &listener};
};

TEST_F(CompletionQueueTest, takes_no_memory_before_the_first_completion) {
  EXPECT_EQ(cq.ring_bytes(), 0u);
  EXPECT_TRUE(poll().empty());
  push(1);
  EXPECT_GT(cq.ring_bytes(), 0u);
}

TEST_F(CompletionQueueTest, is_as_large_as_what_waits_in_it_and_not_as_what_may) {
  constexpr std::uint64_t kMost = 5000;
  ASSERT_TRUE(cq.resize(kMost));
  push(0);
  EXPECT_LE(cq.ring_bytes(), kMost * sizeof(Completion) / 50);
  EXPECT_EQ(poll(), Ids{0});
  Ids wanted;
  for (std::uint64_t i = 1; i <= kMost; ++i) {
    push(i);
    wanted.push_back(i);
  }
  EXPECT_EQ(listener.overruns, 0);
  push(kMost + 1);
  EXPECT_EQ(listener.overruns, 1);
  EXPECT_EQ(poll(kMost + 1), wanted);
}

TEST_F(CompletionQueueTest, gives_completions_out_in_order_as_many_as_asked_for) {
  for (std::uint64_t i = 0; i < 5; ++i) push(i);
  EXPECT_EQ(cq.size(), 5u);
  EXPECT_EQ(poll(2), (Ids{0, 1}));
  EXPECT_EQ(poll(), (Ids{2, 3, 4}));
  EXPECT_TRUE(cq.empty());
  for (std::uint64_t turn = 0; turn < 1000; ++turn) {
    push(turn), push(turn + 1);
    ASSERT_EQ(poll(), (Ids{turn, turn + 1}));
  }
  EXPECT_FALSE(cq.overrun());
}

TEST_F(CompletionQueueTest, loses_the_one_too_many_and_says_so) {
  for (std::uint64_t i = 0; i < 7; ++i) push(i);
  EXPECT_TRUE(cq.overrun());
  EXPECT_EQ(listener.overruns, 2);
  EXPECT_EQ(poll(), (Ids{0, 1, 2, 3, 4})) << "what was there is not overwritten";
  push(9);
  EXPECT_EQ(poll(), Ids{9});
}

TEST_F(CompletionQueueTest, keeps_the_newest_and_says_nothing_if_overruns_are_ignored) {
  cq.ignore_overrun();
  for (std::uint64_t i = 0; i < 7; ++i) push(i);
  EXPECT_FALSE(cq.overrun());
  EXPECT_EQ(listener.overruns, 0);
  EXPECT_EQ(cq.size(), 5u);
  EXPECT_EQ(poll(), (Ids{2, 3, 4, 5, 6}));
  push(9);
  EXPECT_EQ(poll(), Ids{9});
}

TEST_F(CompletionQueueTest, gives_no_event_unless_it_is_asked) {
  push(1, true);
  EXPECT_EQ(listener.events, 0);
}

TEST_F(CompletionQueueTest, gives_one_event_for_the_next_completion_of_any_kind) {
  cq.request_notify(false);
  push(1);
  push(2);
  EXPECT_EQ(listener.events, 1);
}

TEST_F(CompletionQueueTest, gives_its_event_at_once_for_what_waits_since_the_last_one) {
  push(1);
  cq.request_notify(false);
  EXPECT_EQ(listener.events, 1);
}

TEST_F(CompletionQueueTest, gives_no_second_event_for_what_was_told_or_taken) {
  cq.request_notify(false);
  push(1);
  EXPECT_EQ(listener.events, 1);
  cq.request_notify(false);  // it still waits, but has been told
  EXPECT_EQ(listener.events, 1);
  EXPECT_EQ(poll(), Ids{1});
  push(2);
  EXPECT_EQ(listener.events, 2);
  push(3);
  EXPECT_EQ(poll(2), (Ids{2, 3}));
  cq.request_notify(false);  // nothing waits
  EXPECT_EQ(listener.events, 2);
}

TEST_F(CompletionQueueTest, gives_no_event_at_once_for_unsolicited_ones_when_told_so) {
  push(1);
  cq.request_notify(true);
  EXPECT_EQ(listener.events, 0);
  push(2, true);
  EXPECT_EQ(listener.events, 1);
  push(3, true);
  push(4);
  cq.request_notify(true);
  EXPECT_EQ(listener.events, 2);
}

TEST_F(CompletionQueueTest, waits_for_a_solicited_or_failed_one_when_told_so) {
  cq.request_notify(true);
  push(1);
  EXPECT_EQ(listener.events, 0);
  push(2, true);
  EXPECT_EQ(listener.events, 1);
  cq.request_notify(true);
  push(3, false, CompletionStatus::kFlushed);
  EXPECT_EQ(listener.events, 2);
}

TEST_F(CompletionQueueTest, does_not_weaken_a_request_for_any_by_one_for_solicited) {
  cq.request_notify(false);
  cq.request_notify(true);
  push(1);
  EXPECT_EQ(listener.events, 1);
}

TEST_F(CompletionQueueTest, strengthens_a_request_for_solicited_by_one_for_any) {
  cq.request_notify(true);
  cq.request_notify(false);
  push(1);
  EXPECT_EQ(listener.events, 1);
}

TEST_F(CompletionQueueTest, hands_one_over_that_nobody_waits_before) {
  Completion out;
  EXPECT_TRUE(pass_to_poller(1, &out));
  EXPECT_EQ(out.wr_id, 1u);
  EXPECT_TRUE(cq.empty());
}

TEST_F(CompletionQueueTest, hands_nothing_over_that_would_overtake_another) {
  Completion out;
  push(1);
  EXPECT_FALSE(pass_to_poller(2, &out));
  EXPECT_EQ(poll(), (Ids{1, 2}));
}

TEST_F(CompletionQueueTest, hands_nothing_over_that_somebody_waits_for) {
  Completion out;
  cq.request_notify(false);
  EXPECT_FALSE(pass_to_poller(1, &out));
  EXPECT_EQ(listener.events, 1);
  EXPECT_EQ(poll(), (Ids{1}));
  EXPECT_TRUE(pass_to_poller(2, &out)) << "the event has been given";
}

TEST_F(CompletionQueueTest, knows_whose_received_messages_wait) {
  const Qpn one(1), other(2);
  const auto add = [&](Qpn qpn, CompletionOp op, CompletionStatus status) {
    Completion completion;
    completion.qpn = qpn;
    completion.op = op;
    completion.status = status;
    cq.push(completion, false);
  };
  EXPECT_FALSE(cq.has_received(one));
  add(one, CompletionOp::kSend, CompletionStatus::kSuccess);
  add(one, CompletionOp::kReceive, CompletionStatus::kFlushed);
  add(other, CompletionOp::kReceive, CompletionStatus::kSuccess);
  EXPECT_FALSE(cq.has_received(one)) << "work of its own, and a buffer that nothing came into";
  EXPECT_TRUE(cq.has_received(other));
  poll(3);
  EXPECT_FALSE(cq.has_received(other));
}

TEST_F(CompletionQueueTest, keeps_what_waits_in_it_when_it_grows_or_shrinks) {
  for (std::uint64_t i = 0; i < 3; ++i) push(i);
  EXPECT_EQ(poll(2), (Ids{0, 1}));
  for (std::uint64_t i = 3; i < 7; ++i) push(i);
  ASSERT_TRUE(cq.resize(100));
  for (std::uint64_t i = 7; i < 90; ++i) push(i);
  EXPECT_FALSE(cq.resize(87)) << "88 are waiting";
  EXPECT_EQ(cq.capacity(), 100u);
  EXPECT_EQ(poll(85).front(), 2u);
  ASSERT_TRUE(cq.resize(3));
  push(99);
  EXPECT_TRUE(cq.overrun());
  EXPECT_EQ(poll(), (Ids{87, 88, 89}));
}

TEST_F(CompletionQueueTest, cannot_be_resized_to_nothing) {
  EXPECT_FALSE(cq.resize(0));
  push(1);
  EXPECT_EQ(poll(), Ids{1});
}

TEST_F(CompletionQueueTest, can_be_resized_before_it_was_used) {
  ASSERT_TRUE(cq.resize(1));
  push(1), push(2);
  EXPECT_EQ(poll(), Ids{1});
  EXPECT_EQ(listener.overruns, 1);
}

}  // namespace
}  // namespace weft::queue

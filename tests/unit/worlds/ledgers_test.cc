// The checkers one by one: each accepts what is right and cries at what is not.
#include <gtest/gtest.h>

#include "worlds/atomics.h"
#include "worlds/shelf.h"
#include "worlds/work.h"

namespace weft::worlds {
namespace {

Work work(std::uint64_t wr_id, bool signaled = true) {
  Work w;
  w.wr_id = wr_id;
  w.signaled = signaled;
  return w;
}

TEST(WorkLedger, retires_unsignaled_work_with_the_next_signaled) {
  WorkLedger ledger;
  std::string wrong;
  ledger.posted(work(1, false));
  ledger.posted(work(2, false));
  ledger.posted(work(3));
  EXPECT_EQ(ledger.completed(3, &wrong).size(), 3u);
  EXPECT_TRUE(wrong.empty());
  EXPECT_TRUE(ledger.empty());
}

TEST(WorkLedger, refuses_a_second_completion) {
  WorkLedger ledger;
  std::string wrong;
  ledger.posted(work(1));
  ledger.completed(1, &wrong);
  EXPECT_TRUE(wrong.empty());
  ledger.completed(1, &wrong);
  EXPECT_NE(wrong.find("not outstanding"), std::string::npos);
}

TEST(WorkLedger, refuses_a_completion_out_of_order) {
  WorkLedger ledger;
  std::string wrong;
  ledger.posted(work(1));
  ledger.posted(work(2));
  ledger.completed(2, &wrong);
  EXPECT_NE(wrong.find("before the signaled request #1"), std::string::npos);
}

class AtomicChecks : public testing::Test {
 protected:
  sim::VirtualClock clock;
  sim::Judge judge{clock};
};

TEST_F(AtomicChecks, accept_additions_that_are_all_accounted_for) {
  CounterCheck counter("c", 100);
  counter.posted(3), counter.posted(4), counter.posted(5);
  counter.succeeded(3, 100, judge), counter.succeeded(4, 103, judge);
  counter.check_final(107, judge);  // the third did not happen
  counter.check_final(112, judge);  // or it did, and nobody was told
  EXPECT_TRUE(judge.content());
}

TEST_F(AtomicChecks, notice_an_addition_that_happened_twice) {
  CounterCheck counter("c", 0);
  counter.posted(3);
  counter.succeeded(3, 0, judge);
  counter.check_final(6, judge);
  EXPECT_FALSE(judge.content());
}

TEST_F(AtomicChecks, notice_two_additions_that_saw_the_same_value) {
  CounterCheck counter("c", 0);
  counter.posted(3), counter.posted(3);
  counter.succeeded(3, 0, judge), counter.succeeded(3, 0, judge);
  EXPECT_FALSE(judge.content());
}

TEST_F(AtomicChecks, follow_the_chain_of_swaps) {
  SwapCheck word("w", 1);
  word.posted(2), word.posted(3), word.posted(9);
  word.succeeded(1, 2, 1, judge);
  word.succeeded(1, 9, 2, judge);  // found another value: nothing was swapped
  word.succeeded(2, 3, 2, judge);
  word.check_final(3, judge);
  EXPECT_TRUE(judge.content());
  word.check_final(9, judge);
  EXPECT_FALSE(judge.content());
}

TEST_F(AtomicChecks, notice_a_value_that_was_replaced_twice) {
  SwapCheck word("w", 1);
  word.posted(2), word.posted(3);
  word.succeeded(1, 2, 1, judge), word.succeeded(1, 3, 1, judge);
  EXPECT_FALSE(judge.content());
}

TEST_F(AtomicChecks, notice_a_value_that_nobody_stored) {
  SwapCheck word("w", 1);
  word.posted(2);
  word.succeeded(1, 2, 77, judge);
  EXPECT_FALSE(judge.content());
}

std::vector<std::byte> content(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(Shelf, holds_what_was_confirmed_and_nothing_else) {
  Shelf shelf;
  shelf.reset(content({0, 0, 0, 0}));
  shelf.posted(1, content({7, 8}), 5);
  EXPECT_EQ(shelf.promised(0, 4), content({0, 7, 8, 0}));
  EXPECT_NE(shelf.judge(content({0, 7, 8, 0})), "") << "it was not confirmed";
  shelf.confirmed(1, content({7, 8}));
  EXPECT_EQ(shelf.judge(content({0, 7, 8, 0})), "");
  EXPECT_NE(shelf.judge(content({0, 7, 8, 1})), "");
}

TEST(Shelf, knows_which_write_was_the_last_although_contents_are_alike) {
  Shelf shelf;
  shelf.reset(content({0, 0}));
  shelf.posted(0, content({7, 7}), 1);
  EXPECT_TRUE(shelf.is_latest(0, 2, 1));
  shelf.posted(1, content({7}), 2);
  EXPECT_FALSE(shelf.is_latest(0, 2, 1));
  EXPECT_TRUE(shelf.is_latest(1, 1, 2));
}

TEST(Shelf, forgives_bytes_in_doubt_only) {
  Shelf shelf;
  shelf.reset(content({0, 0, 0}));
  shelf.doubtful(1, 1);
  EXPECT_EQ(shelf.judge(content({0, 9, 0})), "");
  EXPECT_NE(shelf.judge(content({0, 9, 9})), "");
}

TEST(Shelf, explains_unreliable_writes_byte_by_byte) {
  Shelf shelf;
  shelf.reset(content({0, 0, 0}));
  shelf.possible(0, content({1, 2}));
  shelf.possible(1, content({5, 6}));
  EXPECT_EQ(shelf.judge(content({1, 5, 0})), "");
  EXPECT_EQ(shelf.judge(content({0, 2, 6})), "");
  EXPECT_NE(shelf.judge(content({0, 6, 0})), "");
}

}  // namespace
}  // namespace weft::worlds

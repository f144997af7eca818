// The record of a run: readable lines, and a hash that sees every difference.
#include "sim/trace.h"

#include <gtest/gtest.h>

#include "sim/virtual_clock.h"

namespace weft::sim {
namespace {

class TraceTest : public testing::Test {
 protected:
  VirtualClock clock;
  Trace trace{clock};
};

TEST_F(TraceTest, writes_a_line_that_a_person_can_read) {
  std::string line;
  trace.set_sink([&](std::string_view text) { line = text; });
  trace.posted(2, Qpn(0xABC), SendOp::kWrite, 17, 4096);
  EXPECT_EQ(line, "       1.000 us  node 2 qp 0xabc posts write as #17, 4096 B");
  Completion completion;
  completion.wr_id = 17;
  completion.qpn = Qpn(0xABC);
  completion.op = CompletionOp::kWrite;
  completion.status = CompletionStatus::kRemoteAccessError;
  trace.completed(2, completion);
  EXPECT_EQ(line,
            "       1.000 us  node 2 qp 0xabc completes #17 (write): remote access error, 0 B");
}

TEST_F(TraceTest, names_the_ends_and_the_fate_of_a_frame) {
  std::string line;
  trace.set_sink([&](std::string_view text) { line = text; });
  trace.name_endpoint("0a1");
  trace.name_endpoint("1a1");
  auto frame = std::make_unique<SimFrame>();
  frame->source = 0;
  frame->destination = 1;
  frame->size = 60;
  frame->packet_at = 28;
  wire::Bth bth;
  bth.opcode = wire::Opcode::kRcAcknowledge;
  bth.dest_qp = Qpn(0x77);
  bth.psn = Psn(9);
  bth.emit(std::span(frame->bytes).subspan(28));
  trace.frame(What::kLost, *frame);
  EXPECT_EQ(line, "       1.000 us    0a1 > 1a1   RC ACKNOWLEDGE psn 9 to qp 0x77, 60 B: LOST");
}

TEST_F(TraceTest, tells_only_the_story_when_asked_to) {
  std::vector<std::string> lines;
  trace.set_sink([&](std::string_view text) { lines.emplace_back(text); }, Trace::Detail::kStory);
  trace.posted(0, Qpn(1), SendOp::kSend, 1, 1);
  trace.add(What::kCrashed, 3);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("node 3 CRASHES"), std::string::npos);
}

TEST_F(TraceTest, has_a_hash_that_depends_on_what_when_and_in_which_order) {
  const auto hash_of = [](auto record) {
    VirtualClock time;
    Trace other(time);
    record(other, time);
    return other.hash();
  };
  const auto one = hash_of([](Trace& t, VirtualClock&) { t.add(What::kMoved, 1, 2, 3, 4); });
  EXPECT_EQ(one, hash_of([](Trace& t, VirtualClock&) { t.add(What::kMoved, 1, 2, 3, 4); }));
  EXPECT_NE(one, hash_of([](Trace& t, VirtualClock&) { t.add(What::kMoved, 1, 2, 3, 5); }));
  EXPECT_NE(one, hash_of([](Trace& t, VirtualClock&) { t.add(What::kRevoked, 1, 2, 3, 4); }));
  EXPECT_NE(one, hash_of([](Trace& t, VirtualClock& time) {
              time.advance_to(5'000);
              t.add(What::kMoved, 1, 2, 3, 4);
            }));
  const auto ab =
      hash_of([](Trace& t, VirtualClock&) { t.add(What::kMoved, 1), t.add(What::kMoved, 2); });
  EXPECT_NE(
      ab, hash_of([](Trace& t, VirtualClock&) { t.add(What::kMoved, 2), t.add(What::kMoved, 1); }));
}

TEST_F(TraceTest, keeps_the_latest_lines_for_a_failure) {
  for (std::uint64_t i = 0; i < 200; ++i) trace.add(What::kEvicted, 0, i);
  const auto lines = trace.last_lines();
  ASSERT_FALSE(lines.empty());
  EXPECT_NE(lines.back().find("swaps out 199 pages"), std::string::npos);
  EXPECT_LT(lines.size(), 200u);
}

TEST_F(TraceTest, costs_nothing_when_it_is_off) {
  trace.enable(false);
  trace.add(What::kMoved, 1, 2, 3, 4);
  EXPECT_EQ(trace.hash(), 0u);
  EXPECT_TRUE(trace.last_lines().empty());
}

}  // namespace
}  // namespace weft::sim

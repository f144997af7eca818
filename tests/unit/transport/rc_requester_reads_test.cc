// The requester and answers with data: reads, atomics, their limits, their losses, their lies.
#include "unit/transport/requester_fixture.h"

namespace weft::test {
namespace {

using obs::Counter;
using transport::kReadChunkFrames;

TEST_F(Requester, takes_a_number_for_each_frame_of_a_reads_answer) {
  post(1, SendOp::kRead, 2 * kMtu + 1);
  post(2, SendOp::kSend, 10);
  EXPECT_EQ(sent(), (Numbers{0, 3}));
  read_data(0, kMtu, 1);
  read_data(1, kMtu, 2);
  EXPECT_TRUE(completed().empty());
  read_data(2, 1, 3);
  EXPECT_EQ(completed(), Ids{1});
  ack(3);
  EXPECT_EQ(completed(), Ids{2});
  std::vector<std::byte> expected(kMtu);
  fill_pattern(expected, 2);
  EXPECT_EQ(end.copy_of(kMtu, kMtu), expected);
  EXPECT_EQ(end.memory()[2 * kMtu + 1], std::byte{0xEE});
}

TEST_F(Requester, reads_nothing) {
  post(1, SendOp::kRead, 0);
  EXPECT_EQ(sent(), Numbers{0});
  read_data(0, 0, 1, Opcode::kRcReadResponseOnly);
  EXPECT_EQ(completed(), Ids{1});
}

TEST_F(Requester, takes_data_as_acknowledgement_of_what_came_before) {
  post(1, SendOp::kSend, 10);
  post(2, SendOp::kFetchAdd, 8);
  post(3, SendOp::kSend, 10);
  sent();
  atomic_data(1, 0x1234);
  EXPECT_EQ(completed(), (Ids{1, 2}));
  std::uint64_t value;
  std::memcpy(&value, end.memory().data(), 8);
  EXPECT_EQ(value, 0x1234u);
}

TEST_F(Requester, asks_again_for_exactly_what_is_missing_of_a_read) {
  post(1, SendOp::kRead, 4 * kMtu + 9);
  post(2, SendOp::kSend, 10);
  EXPECT_EQ(sent(), (Numbers{0, 5}));
  read_data(0, kMtu);
  read_data(1, kMtu);
  ack(5);  // past the read: its other frames were lost
  EXPECT_TRUE(completed().empty());
  const auto again = end.requests();
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].opcode(), Opcode::kRcReadRequest);
  EXPECT_EQ(again[0].psn(), kSendPsn + 2);
  EXPECT_EQ(again[0].packet().reth, (wire::Reth{0x1000 + 2 * kMtu, RemoteKey(0x77), 2 * kMtu + 9}));
  ack(5);
  EXPECT_TRUE(sent().empty()) << "a copy of the acknowledgement starts nothing";
  read_data(2, kMtu);
  read_data(3, kMtu);
  read_data(4, 9);
  EXPECT_EQ(completed(), Ids{1});
  ack(5);
  EXPECT_EQ(completed(), Ids{2});
}

TEST_F(Requester, asks_again_after_a_gap_in_the_answer) {
  post(1, SendOp::kRead, 4 * kMtu);
  sent();
  read_data(0, kMtu);
  read_data(2, kMtu);
  const auto again = end.requests();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].psn(), kSendPsn + 1);
  EXPECT_EQ(again[0].packet().reth.length, 3 * kMtu);
  read_data(3, kMtu);
  EXPECT_TRUE(sent().empty());
  for (std::uint32_t at = 1; at < 4; ++at) read_data(at, kMtu);
  EXPECT_EQ(completed(), Ids{1});
}

TEST_F(Requester, asks_again_for_an_atomic_whose_result_was_lost) {
  post(1, SendOp::kCompareSwap, 8, {.compare = 5, .operand = 6});
  post(2, SendOp::kSend, 10);
  const auto first = end.requests();
  EXPECT_EQ(first[0].packet().atomic.compare, 5u);
  EXPECT_EQ(first[0].packet().atomic.swap_or_add, 6u);
  ack(1);
  EXPECT_TRUE(completed().empty()) << "completed without its result";
  const auto again = end.requests();
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].bytes, first[0].bytes);
  atomic_data(0, 5);
  ack(1);
  EXPECT_EQ(completed(), (Ids{1, 2}));
}

TEST_F(Requester, asks_for_a_long_read_piece_by_piece) {
  constexpr std::uint32_t kFrames = 2 * kReadChunkFrames + 10;
  post(1, SendOp::kRead, kFrames * kMtu - 1);
  const auto frames = end.requests();
  ASSERT_EQ(frames.size(), 3u);
  std::uint64_t address = 0x1000;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const wire::Reth reth = frames[i].packet().reth;
    EXPECT_EQ(frames[i].psn(), kSendPsn + i * kReadChunkFrames);
    EXPECT_EQ(reth.address, address);
    EXPECT_EQ(reth.length, i < 2 ? kReadChunkFrames * kMtu : 10 * kMtu - 1);
    address += reth.length;
    EXPECT_EQ(frames[i].packet().bth.ack_request, i == 2) << "only the last one ends the read";
  }
  for (std::uint32_t at = 0; at + 1 < kFrames; ++at) read_data(at, kMtu);
  EXPECT_TRUE(completed().empty());
  read_data(kFrames - 1, kMtu - 1);
  EXPECT_EQ(completed(), Ids{1});
  EXPECT_EQ(end.requester.reads_outstanding, 0);
}

TEST_F(Requester, begins_again_inside_a_piece_and_ends_it_where_it_ended) {
  post(1, SendOp::kRead, 2 * kReadChunkFrames * kMtu);
  EXPECT_EQ(sent(), (Numbers{0, kReadChunkFrames}));
  for (std::uint32_t at = 0; at < 10; ++at) read_data(at, kMtu);
  end.advance_to(transport::next_deadline(end.requester));
  auto again = end.requests();
  ASSERT_EQ(again.size(), 1u) << "after a time-out the window is small";
  EXPECT_EQ(again[0].psn(), kSendPsn + 10);
  EXPECT_EQ(again[0].packet().reth.length, (kReadChunkFrames - 10) * kMtu);
  for (std::uint32_t at = 10; at < kReadChunkFrames; ++at) read_data(at, kMtu);
  again = end.requests();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].psn(), kSendPsn + kReadChunkFrames);
  for (std::uint32_t at = kReadChunkFrames; at < 2 * kReadChunkFrames; ++at) read_data(at, kMtu);
  EXPECT_EQ(completed(), Ids{1});
  EXPECT_EQ(end.requester.reads_outstanding, 0);
}

TEST_F(Requester, keeps_the_limit_on_outstanding_reads_and_atomics) {
  for (std::uint64_t i = 1; i <= 6; ++i) post(i, i % 2 == 0 ? SendOp::kRead : SendOp::kFetchAdd, 8);
  EXPECT_EQ(sent(), (Numbers{0, 1, 2, 3}));
  atomic_data(0, 1);
  EXPECT_EQ(sent(), Numbers{4});
  read_data(1, 8);
  EXPECT_EQ(sent(), Numbers{5});
  atomic_data(2, 1), read_data(3, 8), atomic_data(4, 1), read_data(5, 8);
  EXPECT_EQ(completed().size(), 6u);
}

TEST_F(Requester, counts_the_outstanding_afresh_after_going_back) {
  for (std::uint64_t i = 1; i <= 6; ++i) post(i, SendOp::kRead, 8);
  EXPECT_EQ(sent().size(), 4u);
  read_data(0, 8);
  EXPECT_EQ(sent(), Numbers{4});
  end.advance_to(transport::next_deadline(end.requester));
  EXPECT_EQ(sent(), (Numbers{1, 2, 3, 4}));
  for (std::uint32_t at = 1; at < 5; ++at) read_data(at, 8);
  EXPECT_EQ(sent(), Numbers{5});
}

TEST_F(Requester, holds_a_fenced_request_until_the_reads_before_it_are_complete) {
  post(1, SendOp::kRead, 2 * kMtu);
  post(2, SendOp::kSend, 10);
  post(3, SendOp::kSend, 10, {.flags = SendFlags::kFence | SendFlags::kSignaled});
  EXPECT_EQ(sent(), (Numbers{0, 2}));
  read_data(0, kMtu);
  EXPECT_TRUE(sent().empty());
  read_data(1, kMtu);
  EXPECT_EQ(sent(), Numbers{3});
}

struct Lie {
  const char* name;
  SendOp op;
  std::uint32_t length;
  wire::Opcode answer;
  std::size_t payload;
};

class RequesterLies : public Requester, public testing::WithParamInterface<Lie> {};

TEST_P(RequesterLies, fail_as_bad_response) {
  const Lie& lie = GetParam();
  post(1, lie.op, lie.length);
  post(2, SendOp::kSend, 10);
  sent();
  const auto before = end.copy_of(0, end.memory().size());
  if (lie.answer == Opcode::kRcAtomicAcknowledge) {
    atomic_data(0, 1);
  } else {
    read_data(0, lie.payload, 1, lie.answer);
  }
  EXPECT_EQ(end.copy_of(0, before.size()), before);
  expect_failure(CompletionStatus::kBadResponse, {1, 2});
}

using enum wire::Opcode;
const Lie kLies[] = {
    {"short_frame_in_the_middle", SendOp::kRead, 3 * kMtu, kRcReadResponseFirst, kMtu - 1},
    {"long_frame_in_the_middle", SendOp::kRead, 3 * kMtu, kRcReadResponseFirst, kMtu + 4},
    {"empty_frame_in_the_middle", SendOp::kRead, 3 * kMtu, kRcReadResponseMiddle, 0},
    {"short_last_frame", SendOp::kRead, 10, kRcReadResponseOnly, 9},
    {"long_last_frame", SendOp::kRead, 10, kRcReadResponseOnly, 11},
    {"full_frame_for_a_short_read", SendOp::kRead, 10, kRcReadResponseFirst, kMtu},
    {"data_for_an_empty_read", SendOp::kRead, 0, kRcReadResponseOnly, 4},
    {"data_for_an_atomic", SendOp::kFetchAdd, 8, kRcReadResponseOnly, 8},
    {"data_for_an_atomic_write", SendOp::kAtomicWrite, 0, kRcReadResponseOnly, 8},
    {"result_for_an_atomic_write", SendOp::kAtomicWrite, 0, kRcAtomicAcknowledge, 0},
    {"data_for_a_send", SendOp::kSend, 8, kRcReadResponseOnly, 8},
    {"result_for_a_read", SendOp::kRead, 8, kRcAtomicAcknowledge, 0},
    {"result_for_a_write", SendOp::kWrite, 8, kRcAtomicAcknowledge, 0},
};
INSTANTIATE_TEST_SUITE_P(Drill, RequesterLies, testing::ValuesIn(kLies),
                         [](const auto& tested) { return tested.param.name; });

TEST_F(Requester, fails_a_read_whose_buffer_has_lost_its_key) {
  const auto region = end.keys.register_region(
      {&end.vmm, kPd, end.address(), 4096, Access::kLocalWrite, std::nullopt});
  const Sge one{end.address(), kMtu, region->lkey};
  ASSERT_TRUE(end.post_send({.wr_id = 1, .op = SendOp::kRead, .sges = {&one, 1}}));
  sent();
  ASSERT_TRUE(end.keys.deregister_region(region->lkey));
  read_data(0, kMtu);
  expect_failure(CompletionStatus::kLocalProtectionError);
}

TEST_F(Requester, treats_a_nak_behind_a_lost_answer_as_that_loss) {
  post(1, SendOp::kRead, kMtu);
  post(2, SendOp::kWrite, 10);
  sent();
  nak(1, NakCode::kRemoteAccess);
  EXPECT_EQ(end.state(), QpState::kReadyToSend) << "the read may still be answered";
  EXPECT_EQ(sent(), (Numbers{0, 1}));
  read_data(0, kMtu);
  EXPECT_EQ(completed(), Ids{1});
  nak(1, NakCode::kRemoteAccess);
  end.settle();
  EXPECT_EQ(end.take_sends().at(0).status, CompletionStatus::kRemoteAccessError);
}

}  // namespace
}  // namespace weft::test

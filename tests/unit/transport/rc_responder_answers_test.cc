// The responder's answers to reads and atomics: their frames, their repetition, their limits.
#include "unit/transport/responder_fixture.h"

namespace weft::test {
namespace {

using obs::Counter;

class Answers : public Responder {
 protected:
  void SetUp() override { fill_pattern(end.exposed_memory(), 5); }

  std::vector<std::byte> payload_of(const std::vector<Frame>& frames) {
    std::vector<std::byte> all;
    for (const Frame& frame : frames) {
      const auto part = frame.packet().payload;
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  std::vector<Opcode> opcodes_of(const std::vector<Frame>& frames) {
    std::vector<Opcode> all;
    for (const Frame& frame : frames) all.push_back(frame.opcode());
    return all;
  }
  std::uint64_t word(std::size_t at = 0) {
    std::uint64_t value;
    std::memcpy(&value, end.exposed_memory().data() + at, 8);
    return value;
  }
};

TEST_F(Answers, split_a_read_into_first_middle_and_last) {
  end.deliver(read_frame(0, 2 * kMtu + 20, end.remote(3)));
  const auto frames = end.answers();
  EXPECT_EQ(opcodes_of(frames),
            (std::vector{Opcode::kRcReadResponseFirst, Opcode::kRcReadResponseMiddle,
                         Opcode::kRcReadResponseLast}));
  EXPECT_EQ(payload_of(frames), exposed(3, 2 * kMtu + 20));
  for (std::uint32_t i = 0; i < frames.size(); ++i) EXPECT_EQ(frames[i].psn(), kFirstPsn + i);
  for (const std::size_t i : {0u, 2u}) {
    EXPECT_EQ(frames[i].packet().aeth.kind(), wire::AethKind::kAck);
    EXPECT_EQ(frames[i].packet().aeth.msn, 1u);
  }
  EXPECT_EQ(end.responder.stream.expected(), kFirstPsn + 3);
}

TEST_F(Answers, are_only_when_one_frame_is_enough) {
  for (const std::uint32_t length : {0u, 1u, kMtu}) {
    RcEnd other(responder_setup());
    other.deliver(read_frame(0, length, other.remote()));
    const auto frames = other.answers();
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(frames[0].opcode(), Opcode::kRcReadResponseOnly);
    EXPECT_EQ(frames[0].packet().payload.size(), length);
  }
}

TEST_F(Answers, acknowledge_what_came_before_them) {
  end.deliver(write_frame(Opcode::kRcWriteOnly, 0, 4, 4));
  end.deliver(read_frame(1, 8));
  const wire::Packet packet = answer();
  EXPECT_EQ(packet.bth.opcode, Opcode::kRcReadResponseOnly);
  EXPECT_EQ(packet.aeth.msn, 2u);
}

TEST_F(Answers, come_in_the_order_of_the_questions_and_before_the_acknowledgement) {
  end.deliver(read_frame(0, kMtu + 1));
  end.deliver(add_frame(2, 1));
  end.deliver(read_frame(3, 4));
  end.deliver(write_frame(Opcode::kRcWriteOnly, 4, 4, 4, end.remote(1024)));
  EXPECT_EQ(opcodes_of(end.answers()),
            (std::vector{Opcode::kRcReadResponseFirst, Opcode::kRcReadResponseLast,
                         Opcode::kRcAtomicAcknowledge, Opcode::kRcReadResponseOnly,
                         Opcode::kRcAcknowledge}));
}

TEST_F(Answers, are_given_again_to_a_repeated_read) {
  const Frame read = read_frame(0, 3 * kMtu);
  end.deliver(read);
  const auto first = end.answers();
  end.deliver(write_frame(Opcode::kRcWriteOnly, 3, 4, 4, end.remote(8 * kMtu)));
  end.answers();
  end.deliver(read);
  const auto second = end.answers();
  ASSERT_EQ(second.size(), first.size());
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(second[i].bytes, first[i].bytes);
  EXPECT_EQ(end.responder.stream.msn(), 2u) << "a repetition is no new message";
  EXPECT_EQ(end.responder.stream.expected(), kFirstPsn + 4);
}

TEST_F(Answers, start_in_the_middle_when_the_repeated_read_does) {
  end.deliver(read_frame(0, 4 * kMtu + 7));
  end.answers();
  end.deliver(read_frame(2, 2 * kMtu + 7, end.remote(2 * kMtu)));
  const auto frames = end.answers();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(payload_of(frames), exposed(2 * kMtu, 2 * kMtu + 7));
  for (std::uint32_t i = 0; i < frames.size(); ++i) EXPECT_EQ(frames[i].psn(), kFirstPsn + 2 + i);
  // To the requester this is the answer to a request of its own.
  EXPECT_EQ(opcodes_of(frames),
            (std::vector{Opcode::kRcReadResponseFirst, Opcode::kRcReadResponseMiddle,
                         Opcode::kRcReadResponseLast}));
}

TEST_F(Answers, are_as_long_as_the_repeated_read_asks) {
  end.deliver(read_frame(0, 4 * kMtu));
  end.answers();
  end.deliver(read_frame(1, kMtu, end.remote(kMtu)));
  const auto frames = end.answers();
  EXPECT_EQ(opcodes_of(frames), std::vector{Opcode::kRcReadResponseOnly});
  EXPECT_EQ(payload_of(frames), exposed(kMtu, kMtu));
}

TEST_F(Answers, start_again_when_the_repetition_comes_while_they_are_on_their_way) {
  const Frame read = read_frame(0, 3 * kMtu);
  end.deliver(read);
  ASSERT_TRUE(end.next_answer());
  ASSERT_TRUE(end.next_answer());
  end.deliver(read);
  const auto frames = end.answers();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(payload_of(frames), exposed(0, 3 * kMtu));
}

TEST_F(Answers, are_not_given_to_a_repetition_that_asks_for_something_else) {
  end.deliver(read_frame(0, 2 * kMtu));
  end.answers();
  end.deliver(read_frame(0, 2 * kMtu, end.remote(1)));
  end.deliver(read_frame(0, 2 * kMtu + 1));
  end.deliver(read_frame(1, kMtu + 1, end.remote(kMtu)));
  end.deliver(read_frame(0, 2 * kMtu, {end.remote().address, RemoteKey(1)}));
  end.deliver(add_frame(0, 1));
  EXPECT_TRUE(end.answers().empty());
  EXPECT_EQ(end.state(), QpState::kReadyToReceive);
}

TEST_F(Answers, of_an_atomic_are_replayed_without_doing_it_again) {
  const std::uint64_t before = word();
  const Frame add = add_frame(0, 10);
  end.deliver(add);
  wire::Packet packet = answer();
  EXPECT_EQ(packet.bth.opcode, Opcode::kRcAtomicAcknowledge);
  EXPECT_EQ(packet.atomic_ack.original, before);
  EXPECT_EQ(word(), before + 10);
  end.deliver(add_frame(1, 100));
  EXPECT_EQ(answer().atomic_ack.original, before + 10);
  end.deliver(add);
  packet = answer();
  EXPECT_EQ(packet.atomic_ack.original, before);
  EXPECT_EQ(packet.bth.psn, kFirstPsn);
  EXPECT_EQ(word(), before + 110) << "executed again";
}

TEST_F(Answers, of_an_atomic_write_are_those_of_an_empty_read_and_are_replayed_without_a_store) {
  const auto write_word = [&](std::uint32_t n, std::uint64_t value) {
    wire::Packet packet = headers_of(Opcode::kRcAtomicWrite, kFirstPsn + n);
    packet.reth = {end.remote().address, end.exposed.rkey, 8};
    return forge(packet, std::as_bytes(std::span(&value, 1)));
  };
  const Frame first = write_word(0, 0x0102'0304'0506'0708);
  end.deliver(first);
  wire::Packet packet = answer();
  EXPECT_EQ(packet.bth.opcode, Opcode::kRcReadResponseOnly);
  EXPECT_EQ(packet.bth.psn, kFirstPsn);
  EXPECT_TRUE(packet.payload.empty());
  EXPECT_EQ(word(), 0x0102'0304'0506'0708u);
  end.deliver(write_word(1, 7));
  EXPECT_EQ(answer().bth.psn, kFirstPsn + 1);
  end.deliver(first);
  packet = answer();
  EXPECT_EQ(packet.bth.opcode, Opcode::kRcReadResponseOnly);
  EXPECT_EQ(packet.bth.psn, kFirstPsn);
  EXPECT_EQ(word(), 7u) << "stored again";
}

TEST_F(Answers, are_refused_to_an_atomic_write_of_anything_but_eight_aligned_bytes) {
  struct Wrong {
    std::size_t at;
    std::uint32_t announced, carried;
  };
  for (const Wrong& wrong : {Wrong{4, 8, 8}, Wrong{0, 4, 4}, Wrong{0, 16, 16}, Wrong{0, 8, 4},
                             Wrong{0, 8, 0}, Wrong{0, 16, 8}}) {
    SCOPED_TRACE(testing::Message() << wrong.at << ' ' << wrong.announced << ' ' << wrong.carried);
    RcEnd other(responder_setup());
    wire::Packet packet = headers_of(Opcode::kRcAtomicWrite, kFirstPsn);
    packet.reth = {other.remote(wrong.at).address, other.exposed.rkey, wrong.announced};
    const std::array<std::byte, 16> bytes{};
    other.deliver(forge(packet, std::span(bytes).first(wrong.carried)));
    const auto frames = other.answers();
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(frames[0].packet().aeth, wire::Aeth::nak(0, NakCode::kInvalidRequest));
    EXPECT_EQ(other.state(), QpState::kError);
  }
}

TEST_F(Answers, compare_before_they_swap) {
  const std::uint64_t before = word();
  wire::Packet packet = headers_of(Opcode::kRcCompareSwap, kFirstPsn);
  packet.atomic.address = end.remote().address;
  packet.atomic.key = end.exposed.rkey;
  packet.atomic.compare = before + 1;
  packet.atomic.swap_or_add = 77;
  end.deliver(forge(packet));
  EXPECT_EQ(answer().atomic_ack.original, before);
  EXPECT_EQ(word(), before);
  packet.bth.psn = kFirstPsn + 1;
  packet.atomic.compare = before;
  end.deliver(forge(packet));
  EXPECT_EQ(answer().atomic_ack.original, before);
  EXPECT_EQ(word(), 77u);
}

TEST_F(Answers, are_refused_to_an_unaligned_atomic) {
  for (const std::size_t at : {1u, 4u, 7u}) {
    RcEnd other(responder_setup());
    other.deliver(add_frame(0, 1, other.remote(at)));
    const auto frames = other.answers();
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(frames[0].packet().aeth, wire::Aeth::nak(0, NakCode::kInvalidRequest));
    EXPECT_EQ(other.state(), QpState::kError);
  }
}

TEST_F(Answers, are_limited_to_what_was_agreed) {
  for (std::uint32_t i = 0; i < 4; ++i) end.deliver(read_frame(i, 8));
  EXPECT_EQ(end.state(), QpState::kReadyToReceive);
  end.deliver(read_frame(4, 8));
  end.deliver(read_frame(5, 8));  // too late: the end is only waiting for the answers
  const auto frames = end.answers();
  ASSERT_EQ(frames.size(), 5u) << "what was promised goes out before the refusal";
  EXPECT_EQ(frames[3].packet().bth.opcode, Opcode::kRcReadResponseOnly);
  const wire::Packet last = frames[4].packet();
  ASSERT_EQ(last.aeth.kind(), wire::AethKind::kNak);
  EXPECT_EQ(last.aeth.nak_code(), NakCode::kInvalidRequest);
  EXPECT_EQ(last.bth.psn, kFirstPsn + 4);
  EXPECT_EQ(end.state(), QpState::kError);
}

TEST_F(Answers, are_limited_for_atomics_too_and_the_one_too_many_is_not_executed) {
  const std::uint64_t before = word();
  for (std::uint32_t i = 0; i < 4; ++i) end.deliver(add_frame(i, 1));
  end.deliver(add_frame(4, 1));
  EXPECT_EQ(end.answers().size(), 5u);
  EXPECT_EQ(end.state(), QpState::kError);
  EXPECT_EQ(word(), before + 4);
}

TEST_F(Answers, are_none_when_none_was_agreed) {
  end.qp.attributes.max_dest_rd_atomic = 0;
  expect_fatal(read_frame(0, 8), 0, NakCode::kInvalidRequest);
}

TEST_F(Answers, that_only_repeat_do_not_count_against_the_limit) {
  // A peer whose time-out was too short got the first answer meanwhile and rightly asks the next.
  end.qp.attributes.max_dest_rd_atomic = 2;
  end.deliver(read_frame(0, 8));
  end.deliver(read_frame(1, 8));
  EXPECT_EQ(end.answers().size(), 2u);
  end.deliver(read_frame(0, 8));
  end.deliver(read_frame(1, 8));
  end.deliver(read_frame(2, 8));
  const auto frames = end.answers();
  ASSERT_FALSE(frames.empty());
  EXPECT_EQ(frames.back().psn(), kFirstPsn + 2);
  EXPECT_EQ(frames.back().opcode(), Opcode::kRcReadResponseOnly) << "a lawful peer was refused";
  EXPECT_EQ(end.state(), QpState::kReadyToReceive);
}

TEST_F(Answers, make_room_in_order_for_thousands_more) {
  for (std::uint32_t i = 0; i < 5000; ++i) {
    end.deliver(i % 3 == 0 ? add_frame(i, 1) : read_frame(i, 8));
    ASSERT_EQ(answer().bth.psn, kFirstPsn + i);
  }
  end.deliver(read_frame(4999, 8));
  EXPECT_EQ(answer().bth.psn, kFirstPsn + 4999);
}

TEST_F(Answers, end_with_a_nak_when_the_key_is_taken_back_between_two_frames) {
  const auto key = end.expose(Access::kRemoteRead);
  end.deliver(read_frame(0, 3 * kMtu, {end.remote().address, key.rkey}));
  ASSERT_TRUE(end.next_answer());
  ASSERT_TRUE(end.keys.deregister_region(key.lkey));
  expect_nak(1, NakCode::kRemoteAccess);
  EXPECT_EQ(end.state(), QpState::kError);
}

TEST_F(Answers, to_a_late_copy_are_left_out_in_silence_when_its_key_is_gone) {
  const auto key = end.expose(Access::kRemoteRead);
  const RemoteAddress from{end.remote().address, key.rkey};
  end.deliver(read_frame(0, 8, from));
  EXPECT_EQ(end.answers().size(), 1u);
  ASSERT_TRUE(end.keys.deregister_region(key.lkey));
  end.deliver(read_frame(0, 8, from));
  EXPECT_TRUE(end.answers().empty());
  EXPECT_EQ(end.state(), QpState::kReadyToReceive) << "an old copy killed the connection";
  expect_fatal(read_frame(1, 8, from), 1, NakCode::kRemoteAccess);
}

TEST_F(Answers, to_2_31_bytes_at_the_smallest_mtu_keep_their_numbers) {
  // The key is not looked at again until a frame is built, so no such memory is needed.
  end.deliver(read_frame(0, 8));
  end.answers();
  transport::RcAnswer& answer = end.responder.answers[0];
  answer.length = 1u << 31;
  answer.frames = 1u << 23;
  answer.first_psn = kFirstPsn;
  end.responder.stream.accept_for_data((1u << 23) - 1);
  const std::uint32_t last = (1u << 23) - 1;
  answer.address = end.remote().address - std::uint64_t{last} * kMtu;
  end.deliver(read_frame(last, kMtu));
  const auto frames = end.answers();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].psn(), kFirstPsn + last);
  EXPECT_EQ(payload_of(frames), exposed(0, kMtu));
}

}  // namespace
}  // namespace weft::test

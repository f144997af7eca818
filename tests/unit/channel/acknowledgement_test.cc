#include "channel/acknowledgement.h"

#include <gtest/gtest.h>

#include <array>

#include "unit/channel/simulated_pair.h"

namespace weft::channel::test {
namespace {

using Bytes = std::array<std::byte, kAcknowledgementBytes>;

/// No byte of its flags is zero, so that each missing one shows.
constexpr std::uint32_t kSequence = 0x12345678;

Acknowledgement example(std::uint32_t sequence = kSequence) {
  return {sequence, 1, Verdict::kGranted, 0x7f0012345678, RemoteKey(0xabcdef01), 4, 16416, 250};
}

Bytes emitted(const Acknowledgement& answer) {
  alignas(8) Bytes bytes{};
  emit(answer, bytes);
  return bytes;
}

Found found_in(Bytes bytes, std::uint32_t sequence = kSequence) {
  alignas(8) Bytes aligned = bytes;
  Acknowledgement answer;
  return look(aligned, sequence, answer);
}

TEST(AcknowledgementTest, is_read_as_it_was_written) {
  // A8: sequence, phase, address, key and sizes between head and tail flag.
  alignas(8) Bytes bytes = emitted(example());
  Acknowledgement answer;
  ASSERT_EQ(look(bytes, kSequence, answer), Found::kAnswer);
  EXPECT_EQ(answer.phase, 1u);
  EXPECT_EQ(answer.verdict, Verdict::kGranted);
  EXPECT_EQ(answer.address, 0x7f0012345678u);
  EXPECT_EQ(answer.key, RemoteKey(0xabcdef01));
  EXPECT_EQ(answer.slots, 4u);
  EXPECT_EQ(answer.slot_bytes, 16416u);
  EXPECT_EQ(answer.retry_after_us, 250u);
}

TEST(AcknowledgementTest, is_nothing_before_it_is_written) {
  EXPECT_EQ(found_in({}), Found::kNothing);
}

TEST(AcknowledgementTest, torn_at_any_byte_is_never_an_answer) {
  // A9: what was written so far, from the front, over cleared flags and an older answer.
  const Bytes whole = emitted(example());
  for (const bool over_old : {false, true}) {
    for (std::size_t n = 0; n < kAcknowledgementBytes; ++n) {
      alignas(8) Bytes bytes = over_old ? emitted(example(kSequence - 1)) : Bytes{};
      clear_flags(bytes);
      std::copy_n(whole.begin(), n, bytes.begin());
      EXPECT_NE(found_in(bytes), Found::kAnswer) << n;
    }
  }
}

TEST(AcknowledgementTest, any_changed_bit_is_seen) {
  // A9: a corrupt acknowledgement is never acted on.
  const Bytes whole = emitted(example());
  for (std::size_t i = 0; i < kAcknowledgementBytes; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      Bytes bytes = whole;
      bytes[i] ^= static_cast<std::byte>(1 << bit);
      EXPECT_NE(found_in(bytes), Found::kAnswer) << i << " " << bit;
    }
  }
}

TEST(AcknowledgementTest, of_an_older_request_is_stale) {
  EXPECT_EQ(found_in(emitted(example(kSequence - 1))), Found::kStale);
}

std::string large_text() { return std::string(5000, 'L'); }

TEST(AcknowledgementUse, every_corrupt_byte_leads_to_a_repetition_and_then_to_growth) {
  // A6, A9: repeated under a new sequence; the receiver does not provision twice.
  for (int byte = 0; byte < static_cast<int>(kAcknowledgementBytes); ++byte) {
    SimulatedPair pair{Settings{}};
    pair.there.wires.corrupt_next = 1;
    pair.there.wires.corrupt_byte = byte;
    const int provisions = pair.there.wires.provisions;
    EXPECT_EQ(pair.send(large_text()), 0u);
    for (int i = 0; i < 10; ++i) {
      pair.settle(3);
      pair.now += 20'000'000;
    }
    EXPECT_EQ(pair.here.endpoint.send().phase(), 1u) << byte;
    EXPECT_GE(pair.here.endpoint.send().figures().repeats, 1u) << byte;
    EXPECT_EQ(pair.there.wires.provisions, provisions + 1) << byte;
    EXPECT_EQ(pair.violation(), "");
  }
}

TEST(AcknowledgementUse, a_repetition_reaches_a_strict_receiver_that_has_left_its_small_ring) {
  // A6: through the status words, which outlive every ring.
  Settings settings;
  settings.strict = true;
  SimulatedPair pair{settings};
  pair.there.wires.corrupt_next = 1;
  EXPECT_EQ(pair.send(large_text()), 0u);
  pair.settle();
  EXPECT_EQ(pair.send(large_text()), 5000u);
  EXPECT_EQ(pair.violation(), "");
}

TEST(AcknowledgementUse, that_never_comes_leaves_the_channel_small_and_working) {
  SimulatedPair pair{Settings{}};
  EXPECT_EQ(pair.send(large_text()), 0u);
  // The peer does nothing at all.
  for (int i = 0; i < 10 && pair.here.endpoint.send().figures().abandoned == 0; ++i) {
    pair.now += 60'000'000;
    pair.here.endpoint.progress(pair.now);
    while (pair.here.wires.execute()) {
    }
    SimulatedPair::complete(pair.here);
  }
  EXPECT_EQ(pair.here.endpoint.send().figures().abandoned, 1u);
  EXPECT_FALSE(pair.here.endpoint.failed());
  EXPECT_GT(pair.send(large_text()), 0u);  // in pieces
}

TEST(AcknowledgementUse, an_answer_without_sense_is_not_acted_on) {
  // A9: well-formed, but no honest receiver grants that.
  const auto judge = [](auto change) {
    SimulatedPair pair{Settings{}};
    pair.send(large_text());
    Acknowledgement answer = example(first_of_next_request(0));
    answer.slot_bytes = slot_bytes_of(16384);
    change(answer);
    emit(answer,
         AcknowledgementSlot(pair.here.control + kAcknowledgementOffset, kAcknowledgementBytes));
    pair.here.endpoint.progress(pair.now);
    return pair.here.endpoint.send().figures().corrupt;
  };
  EXPECT_EQ(judge([](auto&) {}), 0u);
  EXPECT_EQ(judge([](auto& a) { a.phase = 2; }), 1u);
  EXPECT_EQ(judge([](auto& a) { a.verdict = static_cast<Verdict>(9); }), 1u);
  EXPECT_EQ(judge([](auto& a) { a.address = 0; }), 1u);
  EXPECT_EQ(judge([](auto& a) { a.address = ~std::uint64_t{7}; }), 1u);
  EXPECT_EQ(judge([](auto& a) { a.slots = 0; }), 1u);
  EXPECT_EQ(judge([](auto& a) { a.slots = 100000; }), 1u);
  EXPECT_EQ(judge([](auto& a) { a.slot_bytes = 3; }), 1u);
  EXPECT_EQ(judge([](auto& a) { a.slot_bytes = 1u << 30; }), 1u);
}

}  // namespace
}  // namespace weft::channel::test

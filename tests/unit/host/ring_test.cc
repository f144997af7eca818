#include "host/ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "base/random.h"
#include "unit/host/ring_kit.h"

namespace weft::host {
namespace {

using test::fill_record;
using test::is_record;
using test::payload_of;
using test::put_record;
using test::RingEnds;

int any_owner, other_owner;

/// Takes and gives back all that is there; how many records that were.
int consume_all(RingConsumer& consumer) {
  RingConsumer::Taken taken;
  int n = 0;
  while (consumer.take(&taken)) ++n;
  consumer.give_back();
  return n;
}

void collect_all(RingProducer& producer) {
  RingProducer::Answered answered;
  while (producer.peek(&answered)) producer.pop();
}

int fill(RingProducer& producer, std::uint32_t bytes) {
  int n = 0;
  while (put_record(producer, 0, bytes)) ++n;
  return n;
}

// ---- against a model ------------------------------------------------------------------------

struct Sent {
  std::uint32_t number, bytes;
  bool taken = false;
};

/// Random producing, consuming and collecting; everything comes out as it went in, in order.
class RingModel {
 public:
  explicit RingModel(std::uint64_t seed) : random_(seed) {}

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) step();
    while (!sent_.empty() && !testing::Test::HasFailure()) {
      consume(1000);
      collect();
    }
    ASSERT_FALSE(ends_.producer.broken() || ends_.consumer.broken());
    ASSERT_TRUE(ends_.producer.empty());
  }
  std::uint64_t bytes_moved() const { return bytes_moved_; }
  std::uint32_t max_payload() const { return ends_.producer.max_payload(); }

 private:
  void step() {
    switch (random_.below(4)) {
      case 0:
      case 1:
        return produce(1 + random_.below(20));
      case 2:
        return consume(random_.below(30));
      default:
        return collect();
    }
  }
  void produce(std::uint64_t most) {
    for (std::uint64_t i = 0; i < most; ++i) {
      const std::uint32_t limit = ends_.producer.max_payload();
      const std::uint64_t bound = random_.below(8) == 0 ? limit + 1u : 200;
      const auto bytes = static_cast<std::uint32_t>(random_.below(bound));
      if (!put_record(ends_.producer, next_number_, bytes, &any_owner)) return;
      sent_.push_back({next_number_++, bytes});
      bytes_moved_ += lines_for(bytes) * kLine;
    }
  }
  void consume(std::uint64_t most) {
    RingConsumer::Taken taken;
    for (std::uint64_t i = 0; i < most && ends_.consumer.take(&taken); ++i) {
      ASSERT_LT(first_not_taken_, sent_.size()) << "a record that nobody sent";
      Sent& sent = sent_[first_not_taken_++];
      ASSERT_TRUE(is_record(taken, sent.number, sent.bytes)) << sent.number;
      sent.taken = true;
      taken.record->status = static_cast<std::uint16_t>(sent.number * 3);
    }
    ends_.consumer.give_back();
  }
  void collect() {
    RingProducer::Answered answered;
    while (ends_.producer.peek(&answered)) {
      if (answered.owner != nullptr) {  // not a pad
        ASSERT_FALSE(sent_.empty());
        const Sent sent = sent_.front();
        ASSERT_TRUE(sent.taken && answered.cookie == sent.number) << sent.number;
        ASSERT_EQ(answered.lines, lines_for(sent.bytes));
        ASSERT_EQ(answered.record->status, static_cast<std::uint16_t>(sent.number * 3));
        sent_.pop_front();
        --first_not_taken_;
      }
      ends_.producer.pop();
    }
  }

  base::SeededRandom random_;
  RingEnds ends_;
  std::deque<Sent> sent_;
  std::size_t first_not_taken_ = 0;
  std::uint32_t next_number_ = 1;
  std::uint64_t bytes_moved_ = 0;
};

TEST(Ring, gives_records_and_answers_in_order_whatever_their_sizes) {
  for (std::uint64_t seed = 1; seed <= 5 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RingModel model(seed);
    model.run(4000);
    // It went round many times, and grew to its limit on the way.
    EXPECT_GT(model.bytes_moved(), 4 * std::uint64_t{kMaxRingBytes});
    EXPECT_EQ(model.max_payload(), kMaxRingBytes / 4 - kLine);
  }
}

// ---- answers --------------------------------------------------------------------------------

TEST(Ring, answer_comes_back_in_the_record) {
  RingEnds ends;
  ASSERT_TRUE(put_record(ends.producer, 5, 100, &any_owner));
  RingConsumer::Taken taken;
  ASSERT_TRUE(ends.consumer.take(&taken));
  taken.record->status = 17;
  taken.record->executed = 18;
  payload_of(*taken.record)[99] = std::byte{19};
  RingProducer::Answered answered;
  EXPECT_FALSE(ends.producer.moved());
  EXPECT_FALSE(ends.producer.peek(&answered)) << "before it was given back";
  ends.consumer.give_back();
  EXPECT_TRUE(ends.producer.moved());
  ASSERT_TRUE(ends.producer.peek(&answered));
  EXPECT_EQ(answered.owner, &any_owner);
  EXPECT_EQ(answered.cookie, 5u);
  EXPECT_EQ(answered.record->status, 17u);
  EXPECT_EQ(answered.record->executed, 18u);
  EXPECT_EQ(payload_of(*answered.record)[99], std::byte{19});
  ends.producer.pop();
  EXPECT_TRUE(ends.producer.empty());
  EXPECT_FALSE(ends.producer.moved());
}

TEST(Ring, record_starts_without_an_answer_also_where_another_had_one) {
  RingEnds ends;
  const int lap = kFirstRingBytes / kLine;
  for (int i = 0; i < 3 * lap; ++i) {
    Record* record = ends.producer.reserve(24);
    ASSERT_NE(record, nullptr);
    ends.producer.publish(fill_record(*record, 0, 24), {&any_owner, 0});
    RingConsumer::Taken taken;
    ASSERT_TRUE(ends.consumer.take(&taken));
    ASSERT_EQ(taken.record->status, 0u) << i;
    ASSERT_EQ(taken.record->executed, 0u) << i;
    taken.record->status = 0xFFFF;
    taken.record->executed = 0xFF;
    ends.consumer.give_back();
    collect_all(ends.producer);
  }
}

TEST(Ring, forgets_the_records_of_an_owner) {
  RingEnds ends;
  for (std::uint32_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(put_record(ends.producer, i, 0, i % 2 == 0 ? &any_owner : &other_owner));
  }
  ends.producer.forget(&any_owner);
  int others = 0;
  ends.producer.for_each_pending([&](void* owner) {
    EXPECT_EQ(owner, &other_owner);
    ++others;
  });
  EXPECT_EQ(others, 3);
  EXPECT_EQ(consume_all(ends.consumer), 6) << "what was sent is executed all the same";
  RingProducer::Answered answered;
  for (std::uint32_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(ends.producer.peek(&answered));
    EXPECT_EQ(answered.owner, i % 2 == 0 ? nullptr : &other_owner);
    EXPECT_EQ(answered.cookie, i);
    ends.producer.pop();
  }
}

/// Record 3 of six, unlike the others in one thing.
struct Likeness {
  const char* name;
  std::uint32_t bytes = 8;
  RingProducer::Note note{&any_owner, 3};
  std::uint16_t status = 0;
  std::uint8_t followers = 2;
};

class RingFollowers : public testing::TestWithParam<Likeness> {};

TEST_P(RingFollowers, are_taken_out_together) {
  const Likeness& third = GetParam();
  RingEnds ends;
  for (std::uint32_t i = 0; i < 6; ++i) {
    Record* record = ends.producer.reserve(i == 3 ? third.bytes : 8);
    ASSERT_NE(record, nullptr);
    ends.producer.publish(fill_record(*record, i, i == 3 ? third.bytes : 8),
                          i == 3 ? third.note : RingProducer::Note{&any_owner, i});
  }
  RingConsumer::Taken taken;
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(ends.consumer.take(&taken));
    if (i == 3) taken.record->status = third.status;
  }
  ends.consumer.give_back();
  RingProducer::Answered answered;
  ASSERT_TRUE(ends.producer.peek(&answered));
  EXPECT_EQ(ends.producer.pop_followers(answered, 100), third.followers);
  ends.producer.pop();
  int left = 0;
  for (; ends.producer.peek(&answered); ++left) ends.producer.pop();
  EXPECT_EQ(left, 5 - third.followers);
  EXPECT_TRUE(ends.producer.empty() && !ends.producer.broken());
}

INSTANTIATE_TEST_SUITE_P(
    Ring, RingFollowers,
    testing::Values(Likeness{.name = "alike", .followers = 5},
                    Likeness{.name = "longer", .bytes = 100},
                    Likeness{.name = "another_owner", .note = {&other_owner, 3}},
                    Likeness{.name = "forgotten_owner", .note = {nullptr, 3}},
                    Likeness{.name = "another_cookie", .note = {&any_owner, 30}},
                    Likeness{.name = "awaited", .note = {&any_owner, 3, true}},
                    Likeness{.name = "several_messages", .note = {&any_owner, 3, false, 2}},
                    Likeness{.name = "answered", .status = 1}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(Ring, followers_that_were_not_given_back_stay) {
  RingEnds ends;
  for (std::uint32_t i = 0; i < 6; ++i) ASSERT_TRUE(put_record(ends.producer, i, 8, &any_owner));
  RingConsumer::Taken taken;
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(ends.consumer.take(&taken));
  ends.consumer.give_back();
  RingProducer::Answered answered;
  ASSERT_TRUE(ends.producer.peek(&answered));
  EXPECT_EQ(ends.producer.pop_followers(answered, 2), 2);
  ends.producer.pop();
  ASSERT_TRUE(ends.producer.peek(&answered));
  EXPECT_EQ(answered.cookie, 3u);
  EXPECT_EQ(ends.producer.pop_followers(answered, 2), 0);
  ends.producer.pop();
  EXPECT_FALSE(ends.producer.peek(&answered));
}

// ---- room -----------------------------------------------------------------------------------

TEST(Ring, full_one_grows_when_the_consumer_has_caught_up) {
  RingEnds ends;
  const std::uint32_t small = ends.producer.max_payload();
  EXPECT_GT(fill(ends.producer, 24), 500);
  EXPECT_GT(consume_all(ends.consumer), 500);
  EXPECT_EQ(ends.producer.reserve(24), nullptr) << "what was given back is not collected yet";
  EXPECT_EQ(ends.producer.max_payload(), small);
  collect_all(ends.producer);
  ASSERT_TRUE(put_record(ends.producer, 7, small));
  EXPECT_EQ(ends.producer.max_payload(), kFirstRingBytes - kLine);
  RingConsumer::Taken taken;
  ASSERT_TRUE(ends.consumer.take(&taken));
  EXPECT_TRUE(is_record(taken, 7, small));
}

TEST(Ring, a_growth_that_is_on_its_way_does_not_ask_for_another) {
  RingEnds ends;
  fill(ends.producer, 24);
  consume_all(ends.consumer);
  collect_all(ends.producer);
  ASSERT_TRUE(put_record(ends.producer, 1, 24));
  const std::uint32_t grown = ends.producer.max_payload();
  EXPECT_EQ(ends.producer.reserve(grown), nullptr) << "does not fit into both geometries";
  consume_all(ends.consumer);
  collect_all(ends.producer);
  ASSERT_TRUE(put_record(ends.producer, 2, grown));
  EXPECT_EQ(ends.producer.max_payload(), grown) << "it was large enough";
  EXPECT_EQ(consume_all(ends.consumer), 1);
}

TEST(Ring, grows_to_its_limit_and_no_further) {
  RingEnds ends;
  for (int i = 0; i < 20; ++i) {
    fill(ends.producer, 24);
    consume_all(ends.consumer);
    collect_all(ends.producer);
  }
  EXPECT_EQ(ends.producer.max_payload(), kMaxRingBytes / 4 - kLine);
  ASSERT_TRUE(put_record(ends.producer, 1, ends.producer.max_payload()));
  EXPECT_EQ(consume_all(ends.consumer), 1);
  EXPECT_FALSE(ends.consumer.broken());
}

TEST(Ring, old_payload_never_passes_for_a_ticket) {
  RingEnds ends;
  // A lap of records, each line of which begins with what would be the ticket of this line a lap
  // later, if rings had no secret. Whoever made the payload does not know this one's.
  std::uint64_t position = 0;
  while (position < kFirstRingBytes) {
    constexpr std::uint32_t kBytes = 4 * kLine - kRecordPayloadAt;
    Record* record = ends.producer.reserve(kBytes);
    ASSERT_NE(record, nullptr);
    const RecordHeader header = fill_record(*record, 0, kBytes);
    for (std::uint32_t line = 1; line < 4; ++line) {
      const std::uint64_t ticket = ticket_of(0, position + line * kLine + kFirstRingBytes);
      std::memcpy(payload_of(*record) + line * kLine - kRecordPayloadAt, &ticket, sizeof ticket);
    }
    ends.producer.publish(header, {nullptr, 0});
    position += 4 * kLine;
    consume_all(ends.consumer);
    collect_all(ends.producer);
  }
  RingConsumer::Taken taken;
  for (std::uint32_t i = 0; i < kFirstRingBytes / kLine; ++i) {
    ASSERT_FALSE(ends.consumer.ready()) << "before record " << i;
    ASSERT_TRUE(put_record(ends.producer, i, 24));
    ASSERT_TRUE(ends.consumer.take(&taken));
    ends.consumer.give_back();
    collect_all(ends.producer);
  }
}

// ---- a consumer that lies -------------------------------------------------------------------

class LyingConsumer : public testing::TestWithParam<std::uint64_t> {};

TEST_P(LyingConsumer, is_found_out) {
  RingEnds ends;
  for (std::uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(put_record(ends.producer, i, 100, &any_owner));
  consume_all(ends.consumer);
  RingProducer::Answered answered;
  ASSERT_TRUE(ends.producer.peek(&answered));
  ends.producer.pop();
  collect_all(ends.producer);
  ASSERT_TRUE(put_record(ends.producer, 3, 100, &any_owner));
  ends.head().store(GetParam());
  for (int i = 0; i < 3 && ends.producer.peek(&answered); ++i) ends.producer.pop();
  EXPECT_TRUE(ends.producer.broken());
  EXPECT_FALSE(ends.producer.peek(&answered));
}

constexpr std::uint64_t kThreeRecords = 3 * 3 * kLine;
INSTANTIATE_TEST_SUITE_P(Ring, LyingConsumer,
                         testing::Values(0, kThreeRecords - kLine, kThreeRecords + 1,
                                         kThreeRecords + kLine, kThreeRecords + 4 * kLine,
                                         ~std::uint64_t{0}, std::uint64_t{1} << 63));

// ---- a producer that lies -------------------------------------------------------------------

struct Lie {
  const char* name;
  RecordHeader header;
};

class LyingProducer : public testing::TestWithParam<Lie> {};

TEST_P(LyingProducer, is_found_out) {
  RingEnds ends;
  Record& record = ends.record_at(0);
  record.header = GetParam().header;
  record.ticket.store(ends.ticket_at(0));
  RingConsumer::Taken taken;
  EXPECT_FALSE(ends.consumer.take(&taken));
  EXPECT_TRUE(ends.consumer.broken());
  EXPECT_FALSE(ends.consumer.take(&taken));
}

RecordHeader header_of(RecordKind kind, std::uint16_t lines, std::uint32_t bytes,
                       std::uint32_t immediate = 0) {
  RecordHeader header;
  header.kind = static_cast<std::uint8_t>(kind);
  header.lines = lines;
  header.bytes = bytes;
  header.immediate = immediate;
  return header;
}

constexpr std::uint16_t kLinesOfRing = kFirstRingBytes / kLine;
const Lie kLies[] = {
    {"no_lines", header_of(RecordKind::kFirstOfUser, 0, 0)},
    {"more_lines_than_the_ring", header_of(RecordKind::kFirstOfUser, kLinesOfRing + 1, 0)},
    {"most_lines", header_of(RecordKind::kFirstOfUser, 0xFFFF, 0)},
    {"a_byte_too_many", header_of(RecordKind::kFirstOfUser, 1, 25)},
    {"most_bytes", header_of(RecordKind::kFirstOfUser, 2, 0xFFFFFFFF)},
    {"pad_without_lines", header_of(RecordKind::kPad, 0, 0)},
    {"grows_to_nothing", header_of(RecordKind::kGrow, 1, 0, 0)},
    {"grows_to_what_it_is", header_of(RecordKind::kGrow, 1, 0, kFirstRingBytes)},
    {"grows_to_no_power_of_two", header_of(RecordKind::kGrow, 1, 0, 3 * kFirstRingBytes)},
    {"grows_too_far", header_of(RecordKind::kGrow, 1, 0, 2 * kMaxRingBytes)},
};
INSTANTIATE_TEST_SUITE_P(Ring, LyingProducer, testing::ValuesIn(kLies),
                         [](const auto& tested) { return tested.param.name; });

TEST(Ring, consumer_copies_the_header_before_it_checks_it) {
  RingEnds ends;
  ASSERT_TRUE(put_record(ends.producer, 1, 24));
  RingConsumer::Taken taken;
  ASSERT_TRUE(ends.consumer.take(&taken));
  ends.record_at(0).header.bytes = 0xFFFFFFFF;
  ends.record_at(0).header.kind = 0;
  EXPECT_TRUE(is_record(taken, 1, 24));
}

}  // namespace
}  // namespace weft::host

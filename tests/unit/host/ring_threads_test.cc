#include <gtest/gtest.h>

#include <stop_token>
#include <thread>

#include "base/random.h"
#include "unit/host/ring_kit.h"

namespace weft::host {
namespace {

using test::is_record;
using test::kUserKind;
using test::put_record;
using test::RingEnds;

int any_owner;

std::uint32_t size_of_record(std::uint32_t number) {
  const std::uint32_t hash = number * 2654435761u;
  return (hash >> 28) == 0 ? (hash >> 8) % 8000 : (hash >> 8) % 300;
}

TEST(RingThreads, every_record_and_every_answer_arrives_whole) {
  constexpr std::uint32_t kRecords = 100'000;
  RingEnds ends;
  std::thread consumer([&] {
    RingConsumer::Taken taken;
    for (std::uint32_t number = 0; number < kRecords;) {
      if (!ends.consumer.take(&taken)) {
        if (ends.consumer.broken()) return ADD_FAILURE() << "broken at " << number;
        ends.consumer.give_back();
        std::this_thread::yield();
        continue;
      }
      if (!is_record(taken, number, size_of_record(number))) {
        return ADD_FAILURE() << "record " << number << " is not what was sent";
      }
      taken.record->status = static_cast<std::uint16_t>(number ^ 0x5555);
      if (++number % 7 == 0) ends.consumer.give_back();
    }
    ends.consumer.give_back();
  });
  std::uint32_t sent = 0, answered_count = 0;
  bool whole = true;
  while (answered_count < kRecords && whole && !ends.producer.broken() && !HasFailure()) {
    if (sent < kRecords && put_record(ends.producer, sent, size_of_record(sent), &any_owner)) {
      ++sent;
    } else {
      std::this_thread::yield();
    }
    RingProducer::Answered answered;
    while (whole && ends.producer.peek(&answered)) {
      if (answered.owner != nullptr) {
        whole = answered.cookie == answered_count &&
                answered.record->status == static_cast<std::uint16_t>(answered_count ^ 0x5555);
        ++answered_count;
      }
      ends.producer.pop();
    }
  }
  consumer.join();
  EXPECT_TRUE(whole) << "the answer to record " << answered_count - 1;
  EXPECT_EQ(answered_count, kRecords);
}

// The bytes change while they are read: whatever the consumer takes fits into the ring.
TEST(RingThreads, consumer_of_a_ring_that_changes_all_the_time_stays_inside_it) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    RingEnds ends;
    const std::jthread scribbler([&](const std::stop_token& stop) {
      base::SeededRandom random(seed);
      while (!stop.stop_requested()) {
        const std::uint64_t line = random.below(8);
        Record& record = ends.record_at(line * kLine);
        RecordHeader header;
        header.kind = static_cast<std::uint8_t>(random.below(4));
        header.lines = static_cast<std::uint16_t>(random.below(3));
        header.bytes = static_cast<std::uint32_t>(random.below(130));
        header.immediate = kFirstRingBytes << random.below(4);
        record.header = header;
        record.ticket.store(ends.ticket_at(line * kLine), std::memory_order_relaxed);
      }
    });
    RingConsumer::Taken taken;
    std::uint32_t takes = 0;
    const std::byte* begin = nullptr;
    for (int i = 0; i < 2000 && !ends.consumer.broken(); ++i) {
      if (!ends.consumer.take(&taken)) continue;
      ++takes;
      if (begin == nullptr) begin = reinterpret_cast<const std::byte*>(taken.record);
      const std::uint64_t room = std::uint64_t{taken.header.lines} * kLine;
      ASSERT_GE(taken.header.kind, kUserKind);
      ASSERT_LE(kRecordPayloadAt + std::uint64_t{taken.header.bytes}, room);
      const auto at =
          static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(taken.record) - begin);
      ASSERT_LE(at + room, kMaxRingBytes);
      ends.consumer.give_back();
    }
    ASSERT_LE(takes, 8u) << "only so many lines were ever written";
  }
}

}  // namespace
}  // namespace weft::host

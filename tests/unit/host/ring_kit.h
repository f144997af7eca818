// Both ends of a ring in one process, each with a mapping of its own, and a third one for whoever
// plays an enemy. One thread for each end.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "host/ring.h"

namespace weft::host::test {

inline SharedMemory map_ring(int fd) {
  return SharedMemory::receive(dup(fd), kRingMemoryBytes, kRingMemoryBytes,
                               SharedMemory::Peers::kWrite)
      .value();
}

struct RingEnds {
  RingProducer producer = RingProducer::create().value();
  RingConsumer consumer{map_ring(producer.fd())};
  SharedMemory raw = map_ring(producer.fd());

  std::atomic<std::uint64_t>& head() const {
    return reinterpret_cast<RingControl*>(raw.data())->head;
  }
  std::uint64_t ticket_at(std::uint64_t position) const {
    return ticket_of(reinterpret_cast<RingControl*>(raw.data())->secret, position);
  }
  Record& record_at(std::size_t offset) const {
    return *reinterpret_cast<Record*>(raw.data() + kRingControlBytes + offset);
  }
};

inline constexpr std::uint8_t kUserKind = static_cast<std::uint8_t>(RecordKind::kFirstOfUser);

/// All of a record's payload, which goes on behind the first line.
inline std::byte* payload_of(Record& record) {
  return reinterpret_cast<std::byte*>(&record) + kRecordPayloadAt;
}

/// What byte `at` of the payload of record `number` is.
inline std::byte payload_byte(std::uint32_t number, std::size_t at) {
  return static_cast<std::byte>(number * 131 + at * 7 + at / 64);
}

/// The header for it.
inline RecordHeader fill_record(Record& record, std::uint32_t number, std::uint32_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) payload_of(record)[i] = payload_byte(number, i);
  RecordHeader header;
  header.kind = kUserKind;
  header.sequence = number;
  header.bytes = bytes;
  return header;
}

inline bool is_record(const RingConsumer::Taken& taken, std::uint32_t number, std::uint32_t bytes) {
  if (taken.header.kind != kUserKind || taken.header.sequence != number ||
      taken.header.bytes != bytes) {
    return false;
  }
  for (std::size_t i = 0; i < bytes; ++i) {
    if (payload_of(*taken.record)[i] != payload_byte(number, i)) return false;
  }
  return true;
}

/// Publishes one record; false when the ring has no room.
inline bool put_record(RingProducer& producer, std::uint32_t number, std::uint32_t bytes,
                       void* owner = nullptr) {
  Record* record = producer.reserve(bytes);
  if (record == nullptr) return false;
  producer.publish(fill_record(*record, number, bytes), {owner, number});
  return true;
}

}  // namespace weft::host::test

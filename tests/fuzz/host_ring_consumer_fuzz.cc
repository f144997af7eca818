// A hostile producer against the consumer of a ring: headers and tickets of any kind, at any place,
// also changed after they were read. Whatever comes, what is taken lies inside the ring, records
// are taken forward only, and a broken ring stays broken.
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "base/assert.h"
#include "host/ring.h"
#include "support/byte_feed.h"

namespace weft::test {
namespace {

using host::kLine;
using host::Record;
using host::RingConsumer;

/// The memory of a ring, with all its pages, mapped once for the enemy and once for each consumer.
struct Memory {
  host::SharedMemory mine =
      host::SharedMemory::create("weft-fuzz", host::kRingMemoryBytes, host::kRingMemoryBytes,
                                 host::SharedMemory::Peers::kWrite)
          .value();
  host::SharedMemory map() const {
    return host::SharedMemory::receive(dup(mine.fd()), host::kRingMemoryBytes,
                                       host::kRingMemoryBytes, host::SharedMemory::Peers::kWrite)
        .value();
  }
  std::byte* data() const { return mine.data() + host::kRingControlBytes; }
};

class Drill {
 public:
  Drill(ByteFeed& feed, const Memory& memory)
      : feed_(feed),
        memory_(memory),
        mapping_(memory.map()),
        begin_(mapping_.data()),
        consumer_(std::move(mapping_)) {}
  ~Drill() {
    for (const std::size_t line : touched_) std::memset(memory_.data() + line * kLine, 0, kLine);
    std::memset(memory_.mine.data(), 0, kLine);
  }

  void run() {
    for (int i = 0; i < 200 && !feed_.empty(); ++i) {
      switch (feed_.below(4)) {
        case 0:
        case 1:
          write_record();
          break;
        case 2:
          take();
          break;
        default:
          consumer_.give_back();
      }
    }
  }

 private:
  Record& at_line(std::size_t line) {
    touched_.push_back(line);
    return *reinterpret_cast<Record*>(memory_.data() + line * kLine);
  }

  /// Mostly where the consumer is going to look.
  void write_record() {
    const std::uint32_t size = feed_.below(8) == 0 ? feed_.word() : size_;
    const std::uint64_t position = position_ + feed_.below(4) * kLine;
    const std::uint64_t mask = (size % host::kMaxRingBytes) | (host::kFirstRingBytes - 1);
    Record& record = at_line((position & mask & (host::kMaxRingBytes - 1)) / kLine);
    const std::uint16_t lines[] = {1, 1, 2, 3, 0, 128, 512, 0xFFFF};
    const std::uint32_t bytes[] = {0, 8, 24, 25, 88, 89, 0xFFFFFFFF, 8000};
    const std::uint32_t sizes[] = {128 << 10, 256 << 10, 512 << 10, 1 << 20,
                                   2 << 20,   0,         96 << 10,  host::kFirstRingBytes};
    record.header.kind = feed_.below(4) == 0 ? feed_.byte() : std::uint8_t(feed_.below(3));
    record.header.lines = feed_.pick(lines);
    record.awaited = feed_.byte();
    record.header.bytes = feed_.pick(bytes);
    record.header.immediate = feed_.pick(sizes);
    const std::uint64_t ticket = feed_.below(8) == 0 ? feed_.word() : host::ticket_of(0, position);
    record.ticket.store(ticket, std::memory_order_relaxed);
  }

  void take() {
    RingConsumer::Taken taken;
    if (!consumer_.take(&taken)) {
      was_broken_ = was_broken_ || consumer_.broken();
      WEFT_ASSERT(was_broken_ == consumer_.broken());
      follow();
      return;
    }
    WEFT_ASSERT(!was_broken_);
    const std::byte* const data = begin_ + host::kRingControlBytes;
    const auto at = static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(taken.record) - data);
    const std::uint64_t bytes = std::uint64_t{taken.header.lines} * kLine;
    WEFT_ASSERT(at % kLine == 0 && at + bytes <= host::kMaxRingBytes && bytes > 0);
    WEFT_ASSERT(host::kRecordPayloadAt + std::uint64_t{taken.header.bytes} <= bytes);
    WEFT_ASSERT(taken.header.kind >= std::uint8_t(host::RecordKind::kFirstOfUser));
    // The producer changes its mind; the consumer works with what it has, and answers.
    at_line(at / kLine).header.bytes = 0xFFFFFFFF;
    taken.record->status = 1;
    follow();
  }

  /// Where the consumer is, as far as its head tells.
  void follow() {
    consumer_.give_back();
    const std::uint64_t head =
        reinterpret_cast<host::RingControl*>(memory_.mine.data())->head.load();
    WEFT_ASSERT(head >= position_);
    position_ = head;
    const std::uint32_t sizes[] = {host::kFirstRingBytes, 128 << 10, 256 << 10, 512 << 10, 1 << 20};
    size_ = feed_.pick(sizes) - 1;
  }

  ByteFeed& feed_;
  const Memory& memory_;
  host::SharedMemory mapping_;
  const std::byte* const begin_;
  RingConsumer consumer_;
  std::uint64_t position_ = 0;
  std::uint32_t size_ = host::kFirstRingBytes - 1;
  bool was_broken_ = false;
  std::vector<std::size_t> touched_;
};

}  // namespace
}  // namespace weft::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const weft::test::Memory memory;
  weft::test::ByteFeed feed({data, size});
  weft::test::Drill(feed, memory).run();
  return 0;
}

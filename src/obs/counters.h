// The one counters table: every event that weft counts has a row here with its name, unit and
// help text, and every tool that shows counters reads this table. A Counters object belongs to a
// controller; any thread may add, any thread may read.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

namespace weft::obs {

enum class Counter : std::uint8_t {
  kFramesSent,
  kFramesReceived,
  kBytesSent,
  kBytesReceived,
  kMalformedFrames,
  kBadChecksums,
  kUnknownQueuePairs,
  kWrongSource,
  kWrongState,
  kWrongService,
  kBadPartition,
  kBadQKey,
  kDuplicates,
  kSequenceGaps,
  kStaleAcknowledgements,
  kRnrNaksSent,
  kNaksSent,
  kCongestionNoticesSent,
  kCongestionNotices,
  kRetransmissions,
  kTimeouts,
  kRefusedAccesses,
  kLimitedAccesses,
  kDroppedMessages,
  kRefusedMessages,
  kVanishedMemory,
  kCompletionOverruns,
  kAsyncEventsDropped,
  kContextsMade,
  kContextsRefused,
  kContextsFailed,
  kContextsIdle,
  kUnknownContexts,
  kResyncsSent,
  kResyncs,
  kRawUnclaimed,
  kRawMalformed,
  kRawBadExtensions,
  kRawJumbos,
  kRawSpoofed,
  kCount,
};

struct CounterRow {
  Counter id;
  std::string_view name;
  std::string_view unit;
  std::string_view help;
};

std::span<const CounterRow> counter_table();

class Counters {
 public:
  void add(Counter c, std::uint64_t n = 1) {
    // relaxed: a statistic orders nothing.
    values_[static_cast<std::size_t>(c)].fetch_add(n, std::memory_order_relaxed);
  }
  std::uint64_t get(Counter c) const {
    return values_[static_cast<std::size_t>(c)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Counter::kCount)> values_{};
};

}  // namespace weft::obs

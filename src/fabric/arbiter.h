// Which lane of a port sends the next flit: round robin, or by two weighted tables as InfiniBand
// has them. Lanes of the high table go first, until they have used up their limit while a lane of
// the low one waits. A weight counts flits, which are 64 bytes. A value for each port; one thread.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "fabric/frame.h"

namespace weft::fabric {

struct ArbitrationTable {
  struct Entry {
    std::uint8_t lane;
    std::uint8_t weight;  ///< 0: the entry is skipped
  };
  static constexpr std::uint8_t kNoLimit = 255;

  std::vector<Entry> high, low;
  std::uint8_t limit_of_high = kNoLimit;  ///< in units of 4096 bytes; 0: a single flit

  std::uint32_t high_flits() const { return limit_of_high == 0 ? 1 : limit_of_high * 64u; }
};

class Arbiter {
 public:
  /// A lane of `ready`, which is not empty.
  std::uint8_t pick(std::uint32_t ready, const ArbitrationTable* table) {
    return table == nullptr ? turn(ready) : by_weight(ready, *table);
  }

 private:
  struct Place {
    std::uint8_t at = 0;
    std::uint8_t left = 0;
  };

  std::uint8_t turn(std::uint32_t ready) {
    const std::uint32_t above = ready & ~((2u << last_) - 1);
    last_ = static_cast<std::uint8_t>(std::countr_zero(above != 0 ? above : ready));
    return last_;
  }

  static std::uint32_t lanes_of(const std::vector<ArbitrationTable::Entry>& entries) {
    std::uint32_t lanes = 0;
    for (const auto& entry : entries) lanes |= entry.weight == 0 ? 0u : 1u << entry.lane;
    return lanes;
  }

  static std::uint8_t choose(const std::vector<ArbitrationTable::Entry>& entries,
                             std::uint32_t ready, Place& place) {
    for (std::size_t looked = 0; looked <= entries.size(); ++looked) {
      const auto& entry = entries[place.at];
      if (place.left > 0 && (ready >> entry.lane & 1) != 0) {
        --place.left;
        return entry.lane;
      }
      place.at = static_cast<std::uint8_t>((place.at + 1u) % entries.size());
      place.left = entries[place.at].weight;
    }
    return entries[place.at].lane;
  }

  std::uint8_t by_weight(std::uint32_t ready, const ArbitrationTable& table) {
    const std::uint32_t high = ready & lanes_of(table.high);
    const std::uint32_t low = ready & lanes_of(table.low);
    const bool limited = table.limit_of_high != ArbitrationTable::kNoLimit;
    if (high != 0 && (low == 0 || !limited || high_sent_ < table.high_flits())) {
      high_sent_ += low != 0 ? 1 : 0;
      return choose(table.high, high, high_);
    }
    high_sent_ = 0;
    // A lane that stands in neither table goes when no other is ready.
    return low != 0 ? choose(table.low, low, low_) : turn(ready);
  }

  Place high_, low_;
  std::uint8_t last_ = kMaxLanes - 1;
  std::uint32_t high_sent_ = 0;
};

}  // namespace weft::fabric

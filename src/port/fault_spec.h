// Which faults a port suffers, and how people write them down: items joined by commas, in any
// order, each at most once.
//
//   loss=1%                   frames that never arrive
//   dup=0.1%                  frames that come twice
//   reorder=2%                frames that later ones may overtake
//   corrupt=0.1%              frames with one to four flipped bits
//   delay=50us, 50us..200us   how long every frame takes; alone it changes no order
//   rate=1Gbit                what the link carries in a second
//
// Plain values and a pure function; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "weft/result.h"
#include "weft/types.h"

namespace weft::port {

struct FaultSpec {
  std::uint32_t loss_ppm = 0;
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t reorder_ppm = 0;
  std::uint32_t corrupt_ppm = 0;
  std::uint32_t mark_ppm = 0;  ///< of those that may be marked: as a full router does (ECN)
  Nanoseconds least_delay_ns = 0;
  Nanoseconds most_delay_ns = 0;
  std::uint64_t rate_bits = 0;  ///< in a second; 0: no limit

  friend bool operator==(const FaultSpec&, const FaultSpec&) = default;
};

/// The error names the item that is wrong and shows right ones.
Result<FaultSpec> parse_faults(std::string_view text);

}  // namespace weft::port

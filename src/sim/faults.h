// How a simulated network treats frames: chances in parts per million, and delays. A plain value;
// the scenario draws it from the seed, and healing replaces it by one without faults.
#pragma once

#include <cstdint>

#include "weft/types.h"

namespace weft::sim {

/// Whether every frame carries a computed ICRC that its receiver checks, or only those that a fault
/// has touched, which is what the others would show anyway, and faster.
enum class Checksums : std::uint8_t { kAlways, kOffload };

struct Faults {
  std::uint32_t loss_ppm = 0;
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t corrupt_ppm = 0;
  std::uint32_t jitter_ppm = 0;      ///< frames that are held up and may be overtaken
  Nanoseconds jitter_ns = 0;         ///< by at most this long
  std::uint32_t inbox_frames = ~0u;  ///< what a port holds before it drops

  bool may_lose() const { return loss_ppm > 0 || corrupt_ppm > 0 || inbox_frames != ~0u; }
  bool may_repeat() const { return duplicate_ppm > 0; }
  bool may_reorder() const { return jitter_ppm > 0; }
};

}  // namespace weft::sim

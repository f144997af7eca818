// The dice behind the faults: what becomes of the first frame, the second, and so on. A seed and a
// specification decide all of them, and the seed alone decides what would be drawn: a frame that is
// lost at 1% is also lost at 2%, and other faults do not change that. A plain value; one thread.
#pragma once

#include <array>
#include <cstdint>

#include "base/random.h"
#include "port/fault_spec.h"

namespace weft::port {

/// How long a frame that may be overtaken, or the second copy of a frame, is held up at most.
inline constexpr Nanoseconds kMostHoldUp_ns = 200'000;
inline constexpr std::size_t kMostFlips = 4;

struct Fate {
  bool lost;
  bool duplicated;
  bool corrupted;
  bool reordered;
  bool marked;
  Nanoseconds delay_ns;                           ///< of every frame
  Nanoseconds hold_up_ns;                         ///< more of it when reordered; 1 to the most
  Nanoseconds copy_hold_up_ns;                    ///< of the second copy; 0 to the most
  std::size_t flips;                              ///< 1 to kMostFlips
  std::array<std::uint64_t, kMostFlips> flip_at;  ///< any number: modulo the frame's bits
};

class Fates {
 public:
  Fates(const FaultSpec& spec, std::uint64_t seed) : spec_(spec), random_(seed), marks_(~seed) {}

  /// The next frame's. Always draws the same number of times.
  Fate next() {
    Fate fate;
    fate.lost = random_.chance_ppm(spec_.loss_ppm);
    fate.duplicated = random_.chance_ppm(spec_.duplicate_ppm);
    fate.corrupted = random_.chance_ppm(spec_.corrupt_ppm);
    fate.reordered = random_.chance_ppm(spec_.reorder_ppm);
    fate.marked = marks_.chance_ppm(spec_.mark_ppm);
    const Nanoseconds range = spec_.most_delay_ns - spec_.least_delay_ns;
    fate.delay_ns = spec_.least_delay_ns + random_.below(range + 1);
    fate.hold_up_ns = 1 + random_.below(kMostHoldUp_ns);
    fate.copy_hold_up_ns = random_.below(kMostHoldUp_ns + 1);
    fate.flips = 1 + random_.below(kMostFlips);
    for (std::uint64_t& at : fate.flip_at) at = random_.next();
    return fate;
  }

 private:
  const FaultSpec spec_;
  base::SeededRandom random_;
  base::SeededRandom marks_;  ///< apart, so that the other faults of a seed stay what they were
};

}  // namespace weft::port

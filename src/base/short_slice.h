// Asks the scheduler for short turns of the calling thread: one that sleeps, does a little and
// sleeps again. It gets no more of the processor, but gets it sooner: a thread that is woken is let
// in before others whose turns are long, also on a machine that has more to do than processors.
// Needs no privilege; a kernel before 6.12 knows no such wish, and nothing changes there.
#pragma once

#include <cstdint>

namespace weft::base {

inline constexpr std::uint64_t kShortestSlice_ns = 100'000;  ///< that Linux grants

void ask_for_short_slices();

}  // namespace weft::base

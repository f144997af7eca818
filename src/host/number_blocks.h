// How the processes of a host share queue-pair numbers: a process claims blocks of 4096. Where
// processes share an address on the network, each has one of 64 slots of it and claims only the
// blocks slot, slot + 64, ..., so that a number alone tells whose it is. Constants; any thread.
#pragma once

#include <cstdint>

#include "weft/types.h"

namespace weft::host {

inline constexpr unsigned kBlockBits = 12;
inline constexpr std::uint32_t kBlockSize = 1u << kBlockBits;
inline constexpr unsigned kNumberSlots = 64;

inline unsigned slot_of(Qpn number) { return (number.value >> kBlockBits) % kNumberSlots; }

}  // namespace weft::host

// Timer codes of the specification, as nanoseconds. Stateless.
#pragma once

#include <algorithm>
#include <cstdint>

#include "weft/types.h"

namespace weft::transport {

/// Acknowledge time-out as it is named: 4.096 us * 2^code; code 0 means never.
constexpr Nanoseconds asked_timeout_ns(std::uint8_t code) {
  return code == 0 ? kNever : Nanoseconds{4096} << (code & 31);
}
/// The time-out that counts. The specification allows up to four times what was asked for
/// (InfiniBand 1.4, 9.7.6.1.3), and short ones take it: a peer in software that has lost its core
/// for a while is not dead.
constexpr Nanoseconds ack_timeout_ns(std::uint8_t code) {
  constexpr Nanoseconds kLong = asked_timeout_ns(16);
  const Nanoseconds asked = asked_timeout_ns(code);
  return asked >= kLong ? asked : std::min(4 * asked, kLong);
}
static_assert(ack_timeout_ns(0) == kNever && ack_timeout_ns(18) == asked_timeout_ns(18));
static_assert(ack_timeout_ns(10) == asked_timeout_ns(12) &&
              ack_timeout_ns(15) == asked_timeout_ns(16));

/// Receiver-not-ready timer (InfiniBand 1.4, table 45), in units of 10 us.
constexpr Nanoseconds rnr_timer_ns(std::uint8_t code) {
  constexpr std::uint32_t kTensOfMicroseconds[32] = {
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return Nanoseconds{kTensOfMicroseconds[code & 31]} * 10'000;
}
static_assert(rnr_timer_ns(0) == 655'360'000);
static_assert(rnr_timer_ns(14) == 1'280'000);
static_assert(rnr_timer_ns(31) == 491'520'000);

}  // namespace weft::transport

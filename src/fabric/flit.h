// A flit: what crosses a link in one turn. It ends at the input port, and the output port makes a
// new one. Its header is the link's alone, so a switch that changes nothing of a frame still gives
// each flit another lane, number and check.
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |     kind      | lane  | c.lane|     size      |    reserved   |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |          sequence             |        acknowledged           |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |                 credit of c.lane, a running total             |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |          number of the NAK    |    number of the NAK answered |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |   size bytes of the frame ... |      check (CRC-16)           |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// The credit is of the reverse direction: how many flits of that lane have left the buffer since
// the link came up, so that one that is lost is made good by the next. The acknowledgement is
// cumulative: every flit before that number has arrived. A plain value, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tl/expected.hpp>
#include <vector>

#include "fabric/frame.h"
#include "wire/parse_error.h"

namespace weft::fabric {

inline constexpr std::size_t kFlitHeaderBytes = 16;
inline constexpr std::size_t kFlitCheckBytes = 2;
/// Bytes of a frame in one flit: InfiniBand's unit of credits.
inline constexpr std::size_t kFlitBytes = 64;

/// What a flit is; several at once.
enum FlitKind : std::uint8_t {
  kData = 1,     ///< a part of a frame, with a lane and a sequence number
  kHead = 2,     ///< the frame's first
  kTail = 4,     ///< the frame's last
  kCredit = 8,   ///< the credit's fields are set
  kNak = 16,     ///< something came damaged: send again from `acknowledged`
  kResume = 32,  ///< the answer to a kNak, from here on
};

/// As it lies in the simulation's calendar: where it arrives, and what it says.
struct Flit {
  PortIndex to = kNone;
  FrameIndex frame = kNone;
  std::uint32_t credit = 0;
  std::uint16_t sequence = 0;
  std::uint16_t acknowledged = 0;
  std::uint16_t index = 0;  ///< of the frame's flits
  std::uint16_t nak = 0, resume = 0;
  std::uint8_t lane = 0;
  std::uint8_t credit_lane = 0;
  std::uint8_t kind = 0;
  bool damaged = false;

  bool is(FlitKind what) const { return (kind & what) != 0; }
};

/// How many flits so many bytes of a frame take.
constexpr std::uint16_t flits_for(std::size_t bytes) {
  return static_cast<std::uint16_t>(bytes == 0 ? 1 : (bytes + kFlitBytes - 1) / kFlitBytes);
}

/// CRC-16 of CCITT: finds every error of up to three bits in a flit.
std::uint16_t flit_check(std::span<const std::byte> bytes);

/// The flit as it is on the link.
std::vector<std::byte> emit_flit(const Flit& flit, std::span<const std::byte> data);

struct ParsedFlit {
  Flit flit;  ///< without `to`, `frame` and `index`, which are not on the link
  std::span<const std::byte> data;
};
tl::expected<ParsedFlit, wire::ParseError> parse_flit(std::span<const std::byte> in);

}  // namespace weft::fabric

// One transport packet, from the BTH up to but not including the ICRC: parsed into values, and its
// headers emitted again. Which extension headers are there is the opcode table's word; the fields
// of those that are not keep their defaults. A Packet only points at its payload: it lives as long
// as the buffer that was parsed. Stateless, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tl/expected.hpp>

#include "weft/types.h"
#include "wire/aeth.h"
#include "wire/atomic_ack_eth.h"
#include "wire/atomic_eth.h"
#include "wire/bth.h"
#include "wire/deth.h"
#include "wire/opcode.h"
#include "wire/parse_error.h"
#include "wire/rdeth.h"
#include "wire/reth.h"

namespace weft::wire {

struct Packet {
  Bth bth;
  Reth reth;
  Aeth aeth;
  AtomicEth atomic;
  AtomicAckEth atomic_ack;
  std::uint32_t immediate = 0;  ///< the big-endian field as a number, see immediate.h
  RemoteKey invalidate_key;
  Deth deth;
  Rdeth rdeth;
  std::span<const std::byte> payload;  ///< without the pad

  /// Not defaulted, so that compilers set the few members and do not clear the whole with a string
  /// instruction, which took longer than the parsing.
  Packet() {}

  const OpcodeInfo& info() const { return wire::info(bth.opcode); }
};

/// Pad bytes that bring a payload to a multiple of 4.
constexpr std::uint8_t pad_for(std::size_t payload_bytes) {
  return static_cast<std::uint8_t>((4 - payload_bytes % 4) % 4);
}

/// Takes BTH, extension headers, payload and pad, without the ICRC. Refuses an unknown opcode, a
/// transport version other than 0, missing bytes, a total that is no multiple of 4, a pad longer
/// than the payload, and a payload where the opcode has none. Whether the payload has the length
/// that its message asks for is for the transport to judge.
tl::expected<Packet, ParseError> parse_packet(std::span<const std::byte> in);

/// Writes BTH and extension headers, and returns their size; payload and pad are the caller's to
/// add. The opcode is a known one and `out` has room (kMaxHeaderBytes is always enough).
std::size_t emit_headers(const Packet& packet, std::span<std::byte> out);

/// Writes headers, payload and bth.pad_count zero bytes, and returns their size. For callers whose
/// payload is in one piece; `out` has room.
std::size_t emit_packet(const Packet& packet, std::span<std::byte> out);

}  // namespace weft::wire

// AETH, the acknowledge extended transport header: accepts, defers or refuses requests.
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |    syndrome   |            message sequence number            |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// Syndrome: 000ccccc acknowledge with credit code c (31: no credit count), 001ttttt receiver not
// ready with timer code t, 011nnnnn refused with code n. 010 and everything with the top bit are
// reserved; the byte is kept as it came. A plain value, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tl/expected.hpp>

#include "base/assert.h"
#include "base/big_endian.h"
#include "weft/types.h"
#include "wire/opcode.h"
#include "wire/parse_error.h"

namespace weft::wire {

enum class AethKind : std::uint8_t { kAck, kRnrNak, kNak, kReserved };

/// Why a responder refuses; the numbers are those of the wire.
enum class NakCode : std::uint8_t {
  kPsnSequence = 0,
  kInvalidRequest = 1,
  kRemoteAccess = 2,
  kRemoteOperation = 3,
  kInvalidRd = 4,
};

/// Credit code of a responder that does not count credits.
inline constexpr std::uint8_t kNoCredits = 31;

struct Aeth {
  static constexpr std::size_t kSize = 4;

  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;  ///< 24 bits: messages completed by the responder

  static constexpr Aeth ack(std::uint32_t msn, std::uint8_t credits = kNoCredits) {
    return make(0x00, credits, msn);
  }
  static constexpr Aeth rnr_nak(std::uint32_t msn, std::uint8_t timer_code) {
    return make(0x20, timer_code, msn);
  }
  static constexpr Aeth nak(std::uint32_t msn, NakCode code) {
    return make(0x60, static_cast<std::uint8_t>(code), msn);
  }

  /// A NAK with a code that nobody defines is kReserved too, so that nak_code() is always one.
  constexpr AethKind kind() const {
    switch (syndrome >> 5) {
      case 0:
        return AethKind::kAck;
      case 1:
        return AethKind::kRnrNak;
      case 3:
        return low_bits() <= static_cast<std::uint8_t>(NakCode::kInvalidRd) ? AethKind::kNak
                                                                            : AethKind::kReserved;
      default:
        return AethKind::kReserved;
    }
  }
  /// Each of these is meaningful for its own kind only.
  constexpr std::uint8_t credits() const { return low_bits(); }
  constexpr std::uint8_t rnr_timer_code() const { return low_bits(); }
  constexpr NakCode nak_code() const { return NakCode{low_bits()}; }

  /// Sets every field from exactly kSize bytes; the caller has checked the length.
  void read(std::span<const std::byte, kSize> in) {
    const std::byte* p = in.data();
    syndrome = std::to_integer<std::uint8_t>(p[0]);
    msn = base::load_be24(p + 1);
  }
  static tl::expected<Aeth, ParseError> parse(std::span<const std::byte> in) {
    if (in.size() < kSize) return tl::unexpected(ParseError::kTruncated);
    Aeth header;
    header.read(in.first<kSize>());
    return header;
  }

  void write(std::span<std::byte, kSize> out) const {
    out[0] = static_cast<std::byte>(syndrome);
    base::store_be24(out.data() + 1, msn);
  }
  /// `out` has room for kSize bytes.
  void emit(std::span<std::byte> out) const {
    WEFT_ASSERT(out.size() >= kSize);
    write(out.first<kSize>());
  }
  friend bool operator==(const Aeth&, const Aeth&) = default;

 private:
  static constexpr Aeth make(unsigned kind_bits, std::uint8_t low, std::uint32_t msn) {
    Aeth h;
    h.syndrome = static_cast<std::uint8_t>(kind_bits | (low & 0x1Fu));
    h.msn = msn & kMask24;
    return h;
  }
  constexpr std::uint8_t low_bits() const { return syndrome & 0x1F; }
};
static_assert(Aeth::kSize == detail::kAethBytes);

}  // namespace weft::wire

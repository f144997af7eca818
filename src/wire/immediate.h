// ImmDt: 32 bits of the sender's own that reach the receiver's completion.
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |                         immediate data                        |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// weft does not interpret them. `data` is the number that the big-endian field shows, in host
// order; an interface that hands out network order (ibv_wc.imm_data) swaps at its own edge. A plain
// value, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tl/expected.hpp>

#include "base/assert.h"
#include "base/big_endian.h"
#include "wire/opcode.h"
#include "wire/parse_error.h"

namespace weft::wire {

struct Immediate {
  static constexpr std::size_t kSize = 4;

  std::uint32_t data = 0;

  /// Sets every field from exactly kSize bytes; the caller has checked the length.
  void read(std::span<const std::byte, kSize> in) {
    data = base::load_be<std::uint32_t>(in.data());
  }
  static tl::expected<Immediate, ParseError> parse(std::span<const std::byte> in) {
    if (in.size() < kSize) return tl::unexpected(ParseError::kTruncated);
    Immediate header;
    header.read(in.first<kSize>());
    return header;
  }

  void write(std::span<std::byte, kSize> out) const {
    base::store_be<std::uint32_t>(out.data(), data);
  }
  /// `out` has room for kSize bytes.
  void emit(std::span<std::byte> out) const {
    WEFT_ASSERT(out.size() >= kSize);
    write(out.first<kSize>());
  }
  friend bool operator==(const Immediate&, const Immediate&) = default;
};
static_assert(Immediate::kSize == detail::kImmediateBytes);

}  // namespace weft::wire

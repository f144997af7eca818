// AtomicAckETH: what the memory held before the atomic operation. Follows the AETH.
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |                   original data, upper half                   |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |                   original data, lower half                   |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// A plain value, any thread.
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

struct AtomicAckEth {
  static constexpr std::size_t kSize = 8;

  std::uint64_t original = 0;

  /// Sets every field from exactly kSize bytes; the caller has checked the length.
  void read(std::span<const std::byte, kSize> in) {
    original = base::load_be<std::uint64_t>(in.data());
  }
  static tl::expected<AtomicAckEth, ParseError> parse(std::span<const std::byte> in) {
    if (in.size() < kSize) return tl::unexpected(ParseError::kTruncated);
    AtomicAckEth header;
    header.read(in.first<kSize>());
    return header;
  }

  void write(std::span<std::byte, kSize> out) const {
    base::store_be<std::uint64_t>(out.data(), original);
  }
  /// `out` has room for kSize bytes.
  void emit(std::span<std::byte> out) const {
    WEFT_ASSERT(out.size() >= kSize);
    write(out.first<kSize>());
  }
  friend bool operator==(const AtomicAckEth&, const AtomicAckEth&) = default;
};
static_assert(AtomicAckEth::kSize == detail::kAtomicAckBytes);

}  // namespace weft::wire

// RDETH, the reliable datagram extended transport header: the end-to-end context at the receiver.
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |    reserved   |               end-to-end context              |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// The reserved byte is kept as it came; a sender leaves it 0.
// A plain value, any thread.
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

struct Rdeth {
  static constexpr std::size_t kSize = 4;

  EecNumber context;
  std::uint8_t reserved = 0;

  /// Sets every field from exactly kSize bytes; the caller has checked the length.
  void read(std::span<const std::byte, kSize> in) {
    reserved = std::to_integer<std::uint8_t>(in[0]);
    context = EecNumber(base::load_be24(in.data() + 1));
  }
  static tl::expected<Rdeth, ParseError> parse(std::span<const std::byte> in) {
    if (in.size() < kSize) return tl::unexpected(ParseError::kTruncated);
    Rdeth header;
    header.read(in.first<kSize>());
    return header;
  }

  void write(std::span<std::byte, kSize> out) const {
    out[0] = static_cast<std::byte>(reserved);
    base::store_be24(out.data() + 1, context.value);
  }
  /// `out` has room for kSize bytes.
  void emit(std::span<std::byte> out) const {
    WEFT_ASSERT(out.size() >= kSize);
    write(out.first<kSize>());
  }
  friend bool operator==(const Rdeth&, const Rdeth&) = default;
};
static_assert(Rdeth::kSize == detail::kRdethBytes);

}  // namespace weft::wire

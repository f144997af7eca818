// IETH, the invalidate extended transport header: a key of the receiver's that dies with this
// message.
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |                           remote key                          |
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
#include "weft/types.h"
#include "wire/opcode.h"
#include "wire/parse_error.h"

namespace weft::wire {

struct Ieth {
  static constexpr std::size_t kSize = 4;

  RemoteKey key;

  /// Sets every field from exactly kSize bytes; the caller has checked the length.
  void read(std::span<const std::byte, kSize> in) {
    key = RemoteKey(base::load_be<std::uint32_t>(in.data()));
  }
  static tl::expected<Ieth, ParseError> parse(std::span<const std::byte> in) {
    if (in.size() < kSize) return tl::unexpected(ParseError::kTruncated);
    Ieth header;
    header.read(in.first<kSize>());
    return header;
  }

  void write(std::span<std::byte, kSize> out) const {
    base::store_be<std::uint32_t>(out.data(), key.value);
  }
  /// `out` has room for kSize bytes.
  void emit(std::span<std::byte> out) const {
    WEFT_ASSERT(out.size() >= kSize);
    write(out.first<kSize>());
  }
  friend bool operator==(const Ieth&, const Ieth&) = default;
};
static_assert(Ieth::kSize == detail::kIethBytes);

}  // namespace weft::wire

// DETH, the datagram extended transport header: who sent it, and the key that lets it in.
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |                           queue key                           |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |    reserved   |               source queue pair               |
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

struct Deth {
  static constexpr std::size_t kSize = 8;

  QKey qkey;
  Qpn source_qp;
  std::uint8_t reserved = 0;

  /// Sets every field from exactly kSize bytes; the caller has checked the length.
  void read(std::span<const std::byte, kSize> in) {
    const std::byte* p = in.data();
    qkey = QKey(base::load_be<std::uint32_t>(p));
    reserved = std::to_integer<std::uint8_t>(p[4]);
    source_qp = Qpn(base::load_be24(p + 5));
  }
  static tl::expected<Deth, ParseError> parse(std::span<const std::byte> in) {
    if (in.size() < kSize) return tl::unexpected(ParseError::kTruncated);
    Deth header;
    header.read(in.first<kSize>());
    return header;
  }

  void write(std::span<std::byte, kSize> out) const {
    base::store_be<std::uint32_t>(out.data(), qkey.value);
    out[4] = static_cast<std::byte>(reserved);
    base::store_be24(out.data() + 5, source_qp.value);
  }
  /// `out` has room for kSize bytes.
  void emit(std::span<std::byte> out) const {
    WEFT_ASSERT(out.size() >= kSize);
    write(out.first<kSize>());
  }
  friend bool operator==(const Deth&, const Deth&) = default;
};
static_assert(Deth::kSize == detail::kDethBytes);

}  // namespace weft::wire

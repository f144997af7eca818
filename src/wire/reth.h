// RETH, the RDMA extended transport header: where in the peer's memory a write or read goes.
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |                  virtual address, upper half                  |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |                  virtual address, lower half                  |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |                           remote key                          |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |                 length of the message in bytes                |
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

struct Reth {
  static constexpr std::size_t kSize = 16;

  std::uint64_t address = 0;
  RemoteKey key;
  std::uint32_t length = 0;  ///< of the whole message, not of this packet

  /// Sets every field from exactly kSize bytes; the caller has checked the length.
  void read(std::span<const std::byte, kSize> in) {
    const std::byte* p = in.data();
    address = base::load_be<std::uint64_t>(p);
    key = RemoteKey(base::load_be<std::uint32_t>(p + 8));
    length = base::load_be<std::uint32_t>(p + 12);
  }
  static tl::expected<Reth, ParseError> parse(std::span<const std::byte> in) {
    if (in.size() < kSize) return tl::unexpected(ParseError::kTruncated);
    Reth header;
    header.read(in.first<kSize>());
    return header;
  }

  void write(std::span<std::byte, kSize> out) const {
    base::store_be<std::uint64_t>(out.data(), address);
    base::store_be<std::uint32_t>(out.data() + 8, key.value);
    base::store_be<std::uint32_t>(out.data() + 12, length);
  }
  /// `out` has room for kSize bytes.
  void emit(std::span<std::byte> out) const {
    WEFT_ASSERT(out.size() >= kSize);
    write(out.first<kSize>());
  }
  friend bool operator==(const Reth&, const Reth&) = default;
};
static_assert(Reth::kSize == detail::kRethBytes);

}  // namespace weft::wire

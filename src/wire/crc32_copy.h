// CRC-32 (gzip's) of bytes that are copied at the same time: one pass over them instead of two,
// where the processor has AVX-512 with carry-less multiplication. Running values are those of
// crc32(). Source and destination do not overlap. Reading the source may fault, and
// the caller guards it. Stateless, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::wire {

/// Whether this processor can, and this build; asking takes a moment.
bool has_crc32_copy();

/// Shorter ones gain nothing.
inline constexpr std::size_t kLeastCrc32Copy = 256;

/// At least kLeastCrc32Copy bytes, and only where has_crc32_copy().
std::uint32_t crc32_copy(std::uint32_t crc, std::byte* to, std::span<const std::byte> from);
/// The same, but the CRC covers twelve bytes before them as well: three little-endian words. They
/// are no bytes in memory, because reading what was written a moment ago in other pieces takes
/// long.
struct TwelveBytes {
  std::uint32_t first, second, third;
};
std::uint32_t crc32_copy(std::uint32_t crc, const TwelveBytes& before, std::byte* to,
                         std::span<const std::byte> from);

/// The same without a copy: the quickest way to the CRC of as many bytes.
std::uint32_t crc32_by_blocks(std::uint32_t crc, std::span<const std::byte> bytes);

}  // namespace weft::wire

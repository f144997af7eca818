// CRC-32 as gzip has it, which is Ethernet's and the ICRC's. A running value begins with 0, and the
// next piece goes on from what the last one gave. crc32() takes the quickest way that this
// processor and this build have; each way gives the same. Stateless, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::wire {

std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes);

/// By eight tables, a word of eight bytes at a time: on any processor.
std::uint32_t crc32_by_tables(std::uint32_t crc, std::span<const std::byte> bytes);

/// By instructions that every processor has that is still in use: carry-less multiplication
/// (x86-64), or those for this very CRC (arm64).
bool has_crc32_by_instructions();
/// Only where has_crc32_by_instructions().
std::uint32_t crc32_by_instructions(std::uint32_t crc, std::span<const std::byte> bytes);

}  // namespace weft::wire

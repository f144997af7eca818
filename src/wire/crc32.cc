#include "wire/crc32.h"

#include "wire/crc32_copy.h"

namespace weft::wire {
namespace {

/// False until they are initialized, which does no harm.
const bool by_instructions = has_crc32_by_instructions();
const bool by_blocks = has_crc32_copy();

}  // namespace

std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes) {
  if (by_blocks && bytes.size() >= kLeastCrc32Copy) return crc32_by_blocks(crc, bytes);
  return by_instructions ? crc32_by_instructions(crc, bytes) : crc32_by_tables(crc, bytes);
}

}  // namespace weft::wire

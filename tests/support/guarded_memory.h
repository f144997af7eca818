// Memory of a test between processes, of the heap or of an arena, with guard bytes on both sides
// that nobody was granted: what lands outside of a range is seen.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "support/partner.h"
#include "weft/arena.h"
#include "weft/verbs.h"

namespace weft::test {

enum class MemoryKind : std::uint8_t { kHeap, kArena };
inline const char* name_of(MemoryKind kind) {
  return kind == MemoryKind::kArena ? "arena" : "heap";
}

class GuardedMemory {
 public:
  static constexpr std::size_t kGuardBytes = 4096;
  static constexpr std::byte kGuard{0xA7};

  GuardedMemory(MemoryKind kind, std::size_t bytes) : bytes_(bytes) {
    const std::size_t all = bytes + 2 * kGuardBytes;
    if (kind == MemoryKind::kArena) {
      arena_.push_back(*Arena::create(all + 4096));
      all_ = {static_cast<std::byte*>(arena_.front().allocate(all, 4096)), all};
    } else {
      heap_.resize(all);
      all_ = heap_;
    }
    require(all_.data() != nullptr, "memory for the test");
    std::fill(all_.begin(), all_.end(), kGuard);
    fill(std::byte{0});
  }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  /// What may be granted.
  std::span<std::byte> bytes() const { return all_.subspan(kGuardBytes, bytes_); }
  std::byte* data() const { return bytes().data(); }
  std::size_t size() const { return bytes_; }
  verbs::MemoryRegion grant(const verbs::ProtectionDomain& pd, Access access) const {
    auto region = pd.register_memory(data(), size(), access);
    require(region.has_value(), region ? "" : region.error().message.c_str());
    return std::move(*region);
  }
  void fill(std::byte value) const { std::fill(bytes().begin(), bytes().end(), value); }
  bool is_all(std::byte value) const { return all_are(bytes(), value); }
  bool guards_intact() const {
    return all_are(all_.first(kGuardBytes), kGuard) && all_are(all_.last(kGuardBytes), kGuard);
  }

 private:
  static bool all_are(std::span<const std::byte> bytes, std::byte value) {
    return std::all_of(bytes.begin(), bytes.end(), [value](std::byte b) { return b == value; });
  }

  const std::size_t bytes_;
  std::vector<Arena> arena_;  ///< one, or none
  std::vector<std::byte> heap_;
  std::span<std::byte> all_;
};

}  // namespace weft::test

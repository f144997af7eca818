// memmove() for blocks of any size, around a weakness of some processors: the instruction that libc
// copies large blocks with is some fifteen times slower when the destination lies less than a cache
// line above the source, as far as the places within their pages go. Stateless; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace weft::base {

inline void bulk_copy(void* to, const void* from, std::size_t n) {
  constexpr std::size_t kPage = 4096, kLine = 64;
  constexpr std::size_t kPiece = 1024;  // which libc copies by other instructions
  const std::uintptr_t above =
      reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
  const bool overlaps = above < n || -above < n;
  if (n <= 2 * kPiece || above % kPage - 1 >= kLine - 1 || overlaps) [[likely]] {
    std::memmove(to, from, n);
    return;
  }
  auto* at = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  std::size_t piece = kPiece;
  __asm__("" : "+r"(piece));  // of a size that it knows the compiler makes that instruction itself
  for (; n > piece; at += piece, source += piece, n -= piece) std::memcpy(at, source, piece);
  std::memcpy(at, source, n);
}

}  // namespace weft::base

// Big-endian fields in byte buffers: the one way that weft reads and writes wire numbers. Offsets
// are the caller's responsibility; the parsers check lengths before they read.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace weft::base {

template <class T>
constexpr T byte_swap_if_little(T v) {
  if constexpr (std::endian::native == std::endian::big || sizeof(T) == 1) {
    return v;
  } else if constexpr (sizeof(T) == 2) {
    return static_cast<T>(__builtin_bswap16(v));
  } else if constexpr (sizeof(T) == 4) {
    return static_cast<T>(__builtin_bswap32(v));
  } else {
    return static_cast<T>(__builtin_bswap64(v));
  }
}

template <class T>
T load_be(const std::byte* at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  return byte_swap_if_little(v);
}

template <class T>
void store_be(std::byte* at, T v) {
  v = byte_swap_if_little(v);
  std::memcpy(at, &v, sizeof v);
}

inline std::uint32_t load_be24(const std::byte* at) {
  return std::to_integer<std::uint32_t>(at[0]) << 16 | std::to_integer<std::uint32_t>(at[1]) << 8 |
         std::to_integer<std::uint32_t>(at[2]);
}

inline void store_be24(std::byte* at, std::uint32_t v) {
  at[0] = static_cast<std::byte>(v >> 16);
  at[1] = static_cast<std::byte>(v >> 8);
  at[2] = static_cast<std::byte>(v);
}

}  // namespace weft::base

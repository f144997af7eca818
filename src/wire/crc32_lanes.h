// How carry-less multiplication computes a CRC-32, for x86-64: included only where WEFT_FOLDS is
// defined. Stateless, any thread.
//
// A message is a polynomial, its first bit the highest power; its CRC, but for inversions, is what
// P leaves of it times x^32. There a lane of 16 bytes may as well be multiplied by x^d mod P and
// added to what lies d bits behind it: it is folded. When all is folded onto the last lane, this is
// divided.
//
// A register has the lowest power in its highest bit. Seen so, the product of two words of 64 bits
// lies one power too high, and a factor of 32 bits 31 powers, as it is put at bits 1 to 32. For
// these 32 powers factors are lower ones: the first half of a lane, which is 64 bits ahead of the
// second, is multiplied by x^(d + 64 - 32), and the second by x^(d - 32).
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/crc32_polynomial.h"

// tsan does not see what these instructions read.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define WEFT_FOLDS 1
#endif
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#undef WEFT_FOLDS
#endif
#endif

#if defined(WEFT_FOLDS)
#include <immintrin.h>

#define WEFT_LANES_TARGET gnu::target("pclmul,sse4.1")

namespace weft::wire {

inline constexpr std::size_t kLane = 16;

constexpr long long in_register(std::uint32_t polynomial) {
  return static_cast<long long>(std::uint64_t{polynomial} << 1);
}
struct Factors {
  explicit constexpr Factors(unsigned bits)
      : first(in_register(power_of_x(bits + 32))), second(in_register(power_of_x(bits - 32))) {}
  long long first, second;
};
inline constexpr Factors kByLane(128), kBy2Lanes(256), kBy3Lanes(384), kBy4Lanes(512);

/// x^95 divided by P, without what is left over.
inline constexpr long long kReciprocal = [] {
  std::uint64_t quotient = 0;
  std::uint32_t rest = power_of_x(31);
  for (unsigned i = 0; i < 64; ++i, rest = times_x(rest)) quotient |= std::uint64_t{rest & 1} << i;
  return static_cast<long long>(quotient);
}();

/// What is behind, plus x times the factors.
[[WEFT_LANES_TARGET]] inline __m128i fold_lane(__m128i x, const Factors& by, __m128i behind) {
  const __m128i factors = _mm_set_epi64x(by.second, by.first);
  return _mm_clmulepi64_si128(x, factors, 0x00) ^ _mm_clmulepi64_si128(x, factors, 0x11) ^ behind;
}

/// The last lane, with all before folded onto it, to what P leaves of it times x^32.
[[WEFT_LANES_TARGET]] inline std::uint32_t divide_lane(__m128i lane) {
  // The first half times x^96 plus the second times x^32: 96 bits. How often P is in them shows in
  // the upper 64, and P as often as that leaves the lower 32.
  const __m128i dividend =
      _mm_clmulepi64_si128(lane, _mm_cvtsi64_si128(kByLane.second), 0x00) ^ _mm_srli_si128(lane, 8);
  const __m128i by = _mm_set_epi64x(in_register(kCrc32Polynomial), kReciprocal);
  const __m128i quotient = _mm_clmulepi64_si128(dividend, by, 0x00);
  const __m128i rest = _mm_clmulepi64_si128(quotient, by, 0x10) ^ dividend;
  return static_cast<std::uint32_t>(_mm_extract_epi32(rest, 2));
}

[[WEFT_LANES_TARGET]] inline __m128i load_lane(const std::byte* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

/// A lane with `left` further bytes behind it, to their CRC. Right before `at` lie 16 bytes that
/// can be read, whatever they are.
[[WEFT_LANES_TARGET]] inline std::uint32_t finish_lanes(__m128i lane, const std::byte* at,
                                                        std::size_t left) {
  for (; left >= kLane; at += kLane, left -= kLane) lane = fold_lane(lane, kByLane, load_lane(at));
  if (left > 0) {
    // The first `left` bytes of the lane move to the end of one lane; what remains of it and the
    // bytes behind it are the next. Of a shuffle's places those with the highest bit give 0.
    alignas(kLane) static constexpr std::uint8_t kPlaces[48] = {
        0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
        0x80, 0x80, 0x80, 0x80, 0,    1,    2,    3,    4,    5,    6,    7,
        8,    9,    10,   11,   12,   13,   14,   15,   0x80, 0x80, 0x80, 0x80,
        0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80};
    const auto places = [&](std::size_t from) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(kPlaces + from));
    };
    const __m128i remaining = places(kLane + left);
    const __m128i last =
        _mm_blendv_epi8(_mm_shuffle_epi8(lane, remaining), load_lane(at + left - kLane), remaining);
    lane = fold_lane(_mm_shuffle_epi8(lane, places(left)), kByLane, last);
  }
  return ~divide_lane(lane);
}

}  // namespace weft::wire
#endif

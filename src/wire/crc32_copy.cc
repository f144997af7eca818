#include "wire/crc32_copy.h"

#include <cstring>

#include "base/assert.h"
#include "wire/crc32.h"
#include "wire/crc32_lanes.h"

#if defined(WEFT_FOLDS)

// As wire/crc32_lanes.h tells, four lanes at a time: each block of 64 bytes, when it has been
// copied, is folded onto the fourth behind it; then the last four onto the last, and its four lanes
// onto the last one.
#define WEFT_TARGET gnu::target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.1")

namespace weft::wire {
namespace {

constexpr std::size_t kBlock = 64, kStride = 4 * kBlock;
static_assert(kLeastCrc32Copy >= kStride);

constexpr Factors kByBlock(512), kBy2Blocks(1024), kBy3Blocks(1536), kByStride(2048);

[[WEFT_TARGET]] inline __m512i in_all_lanes(const Factors& by) {
  return _mm512_set_epi64(by.second, by.first, by.second, by.first, by.second, by.first, by.second,
                          by.first);
}

/// What is behind, plus x times the factors.
[[WEFT_TARGET]] inline __m512i fold(__m512i x, __m512i factors, __m512i behind) {
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, factors, 0x00),
                                   _mm512_clmulepi64_epi128(x, factors, 0x11), behind, kXorOfThree);
}

/// A block, with all before folded onto it, folded onto its last lane.
[[WEFT_TARGET]] inline __m128i fold_block(__m512i block) {
  const __m512i last_lane = _mm512_maskz_mov_epi64(0xC0, block);
  const __m512i lanes = fold(block,
                             _mm512_set_epi64(0, 0, kByLane.second, kByLane.first, kBy2Lanes.second,
                                              kBy2Lanes.first, kBy3Lanes.second, kBy3Lanes.first),
                             last_lane);
  const __m256i two = __builtin_shufflevector(lanes, lanes, 0, 1, 2, 3) ^
                      __builtin_shufflevector(lanes, lanes, 4, 5, 6, 7);
  return __builtin_shufflevector(two, two, 0, 1) ^ __builtin_shufflevector(two, two, 2, 3);
}

/// Bytes that are taken block by block, and copied meanwhile or not.
struct Reading {
  const std::byte* at;
  std::size_t left;
  [[WEFT_TARGET]] __m512i next() {
    const __m512i block = _mm512_loadu_si512(at);
    at += kBlock, left -= kBlock;
    return block;
  }
  /// Where to read the last ones, fewer than a block.
  const std::byte* rest() const { return at; }
};
struct Copying : Reading {
  std::byte* to;
  Copying(std::byte* target, std::span<const std::byte> from)
      : Reading{from.data(), from.size()}, to(target) {}
  [[WEFT_TARGET]] __m512i next() {
    const __m512i block = Reading::next();
    _mm512_storeu_si512(to, block);
    to += kBlock;
    return block;
  }
  /// The copy: the source may change meanwhile.
  const std::byte* rest() const {
    std::memcpy(to, at, left);
    return to;
  }
};

/// `before` is what is folded onto the first 16 bytes.
template <class Bytes>
[[WEFT_TARGET]] inline std::uint32_t fold_all(__m128i before, Bytes bytes) {
  WEFT_ASSERT(bytes.left >= kLeastCrc32Copy);
  __m512i a = bytes.next(), b = bytes.next(), c = bytes.next(), d = bytes.next();
  a ^= _mm512_zextsi128_si512(before);
  const __m512i by_stride = in_all_lanes(kByStride);
  while (bytes.left >= kStride) {
    a = fold(a, by_stride, bytes.next());
    b = fold(b, by_stride, bytes.next());
    c = fold(c, by_stride, bytes.next());
    d = fold(d, by_stride, bytes.next());
  }
  const __m512i by_block = in_all_lanes(kByBlock);
  __m512i last = fold(c, by_block, fold(b, in_all_lanes(kBy2Blocks), d));
  last = fold(a, in_all_lanes(kBy3Blocks), last);
  while (bytes.left >= kBlock) last = fold(last, by_block, bytes.next());
  const __m128i lane = fold_block(last);
  return bytes.left == 0 ? ~divide_lane(lane) : finish_lanes(lane, bytes.rest(), bytes.left);
}

}  // namespace

bool has_crc32_copy() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("pclmul");
}

[[WEFT_TARGET]] std::uint32_t crc32_copy(std::uint32_t crc, std::byte* to,
                                         std::span<const std::byte> from) {
  return fold_all(_mm_cvtsi32_si128(static_cast<int>(~crc)), Copying(to, from));
}

[[WEFT_TARGET]] std::uint32_t crc32_copy(std::uint32_t crc, const TwelveBytes& before,
                                         std::byte* to, std::span<const std::byte> from) {
  const __m128i lane =
      _mm_set_epi32(static_cast<int>(before.third), static_cast<int>(before.second),
                    static_cast<int>(before.first ^ ~crc), 0);
  return fold_all(fold_lane(lane, kByLane, _mm_setzero_si128()), Copying(to, from));
}

[[WEFT_TARGET]] std::uint32_t crc32_by_blocks(std::uint32_t crc, std::span<const std::byte> bytes) {
  return fold_all(_mm_cvtsi32_si128(static_cast<int>(~crc)), Reading{bytes.data(), bytes.size()});
}

}  // namespace weft::wire

#else

namespace weft::wire {

bool has_crc32_copy() { return false; }
std::uint32_t crc32_copy(std::uint32_t crc, std::byte*, std::span<const std::byte>) {
  WEFT_ASSERT(has_crc32_copy());
  return crc;
}
std::uint32_t crc32_copy(std::uint32_t crc, const TwelveBytes&, std::byte*,
                         std::span<const std::byte>) {
  WEFT_ASSERT(has_crc32_copy());
  return crc;
}

std::uint32_t crc32_by_blocks(std::uint32_t crc, std::span<const std::byte>) {
  WEFT_ASSERT(has_crc32_copy());
  return crc;
}

}  // namespace weft::wire

#endif

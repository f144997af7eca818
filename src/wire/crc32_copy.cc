#include "wire/crc32_copy.h"

#include <isa-l/crc.h>

#include <cstring>

#include "base/assert.h"
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

// A message is a polynomial, its first bit the highest power; its CRC, but for inversions, is what
// P leaves of it times x^32. There a block may as well be multiplied by x^d mod P and added to what
// lies d bits behind it: it is folded. So each block of 64 bytes, when it has been copied, is
// folded onto the fourth behind it; then the last four onto the last, its four lanes of 16 bytes
// onto the last one, and this is divided.
//
// A register has the lowest power in its highest bit. Seen so, the product of two words of 64 bits
// lies one power too high, and a factor of 32 bits 31 powers, as it is put at bits 1 to 32. For
// these 32 powers factors are lower ones: the first half of a lane, which is 64 bits ahead of the
// second, is multiplied by x^(d + 64 - 32), and the second by x^(d - 32).
#define WEFT_TARGET gnu::target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.1")

namespace weft::wire {
namespace {

constexpr std::size_t kBlock = 64, kStride = 4 * kBlock;
static_assert(kLeastCrc32Copy >= kStride);

constexpr long long in_register(std::uint32_t polynomial) {
  return static_cast<long long>(std::uint64_t{polynomial} << 1);
}
struct Factors {
  explicit constexpr Factors(unsigned bits)
      : first(in_register(power_of_x(bits + 32))), second(in_register(power_of_x(bits - 32))) {}
  long long first, second;
};
constexpr Factors kByLane(128), kBy2Lanes(256), kBy3Lanes(384);
constexpr Factors kByBlock(512), kBy2Blocks(1024), kBy3Blocks(1536), kByStride(2048);

/// x^95 divided by P, without what is left over.
constexpr long long kReciprocal = [] {
  std::uint64_t quotient = 0;
  std::uint32_t rest = power_of_x(31);
  for (unsigned i = 0; i < 64; ++i, rest = times_x(rest)) quotient |= std::uint64_t{rest & 1} << i;
  return static_cast<long long>(quotient);
}();

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

/// The last block, with all before folded onto it, to what P leaves of it times x^32.
[[WEFT_TARGET]] inline std::uint32_t divide(__m512i block) {
  const __m512i last_lane = _mm512_maskz_mov_epi64(0xC0, block);
  const __m512i lanes = fold(block,
                             _mm512_set_epi64(0, 0, kByLane.second, kByLane.first, kBy2Lanes.second,
                                              kBy2Lanes.first, kBy3Lanes.second, kBy3Lanes.first),
                             last_lane);
  const __m256i two = __builtin_shufflevector(lanes, lanes, 0, 1, 2, 3) ^
                      __builtin_shufflevector(lanes, lanes, 4, 5, 6, 7);
  const __m128i lane =
      __builtin_shufflevector(two, two, 0, 1) ^ __builtin_shufflevector(two, two, 2, 3);
  // The first half times x^96 plus the second times x^32: 96 bits. How often P is in them shows in
  // the upper 64, and P as often as that leaves the lower 32.
  const __m128i dividend =
      _mm_clmulepi64_si128(lane, _mm_cvtsi64_si128(kByLane.second), 0x00) ^ _mm_srli_si128(lane, 8);
  const __m128i by = _mm_set_epi64x(in_register(kCrc32Polynomial), kReciprocal);
  const __m128i quotient = _mm_clmulepi64_si128(dividend, by, 0x00);
  const __m128i rest = _mm_clmulepi64_si128(quotient, by, 0x10) ^ dividend;
  return static_cast<std::uint32_t>(_mm_extract_epi32(rest, 2));
}

[[WEFT_TARGET]] inline __m512i copy_block(std::byte* to, const std::byte* from) {
  const __m512i block = _mm512_loadu_si512(from);
  _mm512_storeu_si512(to, block);
  return block;
}

/// `before` is what is folded onto the first 16 bytes.
[[WEFT_TARGET]] inline std::uint32_t copy_and_fold(__m128i before, std::byte* to,
                                                   std::span<const std::byte> from) {
  WEFT_ASSERT(from.size() >= kLeastCrc32Copy);
  const std::byte* at = from.data();
  std::size_t left = from.size();
  const auto go_on = [&](std::size_t bytes) { to += bytes, at += bytes, left -= bytes; };
  __m512i a = copy_block(to, at), b = copy_block(to + kBlock, at + kBlock),
          c = copy_block(to + 2 * kBlock, at + 2 * kBlock),
          d = copy_block(to + 3 * kBlock, at + 3 * kBlock);
  a ^= _mm512_zextsi128_si512(before);
  go_on(kStride);
  const __m512i by_stride = in_all_lanes(kByStride);
  for (; left >= kStride; go_on(kStride)) {
    a = fold(a, by_stride, copy_block(to, at));
    b = fold(b, by_stride, copy_block(to + kBlock, at + kBlock));
    c = fold(c, by_stride, copy_block(to + 2 * kBlock, at + 2 * kBlock));
    d = fold(d, by_stride, copy_block(to + 3 * kBlock, at + 3 * kBlock));
  }
  const __m512i by_block = in_all_lanes(kByBlock);
  __m512i last = fold(c, by_block, fold(b, in_all_lanes(kBy2Blocks), d));
  last = fold(a, in_all_lanes(kBy3Blocks), last);
  for (; left >= kBlock; go_on(kBlock)) last = fold(last, by_block, copy_block(to, at));
  const std::uint32_t crc = ~divide(last);
  if (left == 0) return crc;
  std::memcpy(to, at, left);
  return crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(to), left);
}

}  // namespace

bool has_crc32_copy() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("pclmul");
}

[[WEFT_TARGET]] std::uint32_t crc32_copy(std::uint32_t crc, std::byte* to,
                                         std::span<const std::byte> from) {
  return copy_and_fold(_mm_cvtsi32_si128(static_cast<int>(~crc)), to, from);
}

[[WEFT_TARGET]] std::uint32_t crc32_copy(std::uint32_t crc, const TwelveBytes& before,
                                         std::byte* to, std::span<const std::byte> from) {
  const __m128i lane =
      _mm_set_epi32(static_cast<int>(before.third), static_cast<int>(before.second),
                    static_cast<int>(before.first ^ ~crc), 0);
  const __m128i by = _mm_set_epi64x(kByLane.second, kByLane.first);
  return copy_and_fold(_mm_clmulepi64_si128(lane, by, 0x00) ^ _mm_clmulepi64_si128(lane, by, 0x11),
                       to, from);
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

}  // namespace weft::wire

#endif

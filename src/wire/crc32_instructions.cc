#include <cstring>

#include "base/assert.h"
#include "wire/crc32.h"
#include "wire/crc32_lanes.h"

#if defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

namespace weft::wire {
namespace {

template <class Word>
[[maybe_unused]] Word load(const std::byte* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

}  // namespace

#if defined(WEFT_FOLDS)

namespace {

/// Fewer bytes than a lane, moved to its end: zeros before a message change nothing.
[[WEFT_LANES_TARGET]] std::uint32_t crc32_of_few(std::uint32_t crc, const std::byte* at,
                                                 std::size_t size) {
  using Word = std::uint64_t;
  const Word start = ~crc;
  if (size > 8) {
    const unsigned spare = 8 * static_cast<unsigned>(kLane - size);
    const Word first = load<Word>(at) ^ start;
    const Word second = load<Word>(at + size - 8) >> spare;
    return ~divide_lane(
        _mm_set_epi64x(static_cast<long long>(second << spare | first >> (64 - spare)),
                       static_cast<long long>(first << spare)));
  }
  if (size < 4) return crc32_by_tables(crc, {at, size});
  const Word overlapping = Word{load<std::uint32_t>(at + size - 4)} << (8 * (size - 4));
  const Word word = (load<std::uint32_t>(at) | overlapping) ^ start;
  return ~divide_lane(_mm_set_epi64x(static_cast<long long>(word << (8 * (8 - size))), 0));
}

}  // namespace

bool has_crc32_by_instructions() {
  return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}

[[WEFT_LANES_TARGET]] std::uint32_t crc32_by_instructions(std::uint32_t crc,
                                                          std::span<const std::byte> bytes) {
  constexpr std::size_t kStride = 4 * kLane;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  if (left < kLane) return crc32_of_few(crc, at, left);
  const __m128i start = _mm_cvtsi32_si128(static_cast<int>(~crc));
  if (left < 2 * kStride) return finish_lanes(load_lane(at) ^ start, at + kLane, left - kLane);
  __m128i a = load_lane(at) ^ start, b = load_lane(at + kLane), c = load_lane(at + 2 * kLane),
          d = load_lane(at + 3 * kLane);
  for (at += kStride, left -= kStride; left >= kStride; at += kStride, left -= kStride) {
    a = fold_lane(a, kBy4Lanes, load_lane(at));
    b = fold_lane(b, kBy4Lanes, load_lane(at + kLane));
    c = fold_lane(c, kBy4Lanes, load_lane(at + 2 * kLane));
    d = fold_lane(d, kBy4Lanes, load_lane(at + 3 * kLane));
  }
  const __m128i last = fold_lane(c, kByLane, fold_lane(b, kBy2Lanes, d));
  return finish_lanes(fold_lane(a, kBy3Lanes, last), at, left);
}

#elif defined(__aarch64__) && !defined(__SANITIZE_THREAD__)

bool has_crc32_by_instructions() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }

[[gnu::target("+crc")]] std::uint32_t crc32_by_instructions(std::uint32_t crc,
                                                            std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  crc = ~crc;
  for (; left >= 8; at += 8, left -= 8) crc = __crc32d(crc, load<std::uint64_t>(at));
  if ((left & 4) != 0) crc = __crc32w(crc, load<std::uint32_t>(at)), at += 4;
  if ((left & 2) != 0) crc = __crc32h(crc, load<std::uint16_t>(at)), at += 2;
  if ((left & 1) != 0) crc = __crc32b(crc, load<std::uint8_t>(at));
  return ~crc;
}

#else

bool has_crc32_by_instructions() { return false; }
std::uint32_t crc32_by_instructions(std::uint32_t crc, std::span<const std::byte>) {
  WEFT_ASSERT(has_crc32_by_instructions());
  return crc;
}

#endif

}  // namespace weft::wire

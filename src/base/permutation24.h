// A secret permutation of the 24-bit numbers, so that slot numbers which peers see (keys,
// queue-pair numbers) cannot be guessed from one another. A Feistel network over two 12-bit halves
// with four keyed round functions, each of which folds two wide products with secret factors.
// Nothing is looked up in memory: whoever meets a key for the first time would wait for each of
// four tables in turn. Filled once in the constructor; afterwards constant, any thread. Owned by
// the table whose slots it hides.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/random.h"

namespace weft::base {

class Permutation24 {
 public:
  explicit Permutation24(Random& random) {
    random.fill(std::as_writable_bytes(std::span(secret_)));
    // An even factor would lose what it is multiplied with.
    for (auto& round : secret_) round[1] |= 1, round[3] |= 1;
  }

  /// For one who may know the secret; backward_through() undoes forward() with a copy of it.
  using Round = std::array<std::uint64_t, 4>;
  using Secret = std::array<Round, 4>;
  const Secret& secret() const { return secret_; }
  /// Whatever the secret holds: the result is below 2^24.
  static std::uint32_t backward_through(const Secret& secret, std::uint32_t v) {
    std::uint32_t left = v >> kHalfBits & kHalfMask;
    std::uint32_t right = v & kHalfMask;
    right ^= mix(secret[3], left);
    left ^= mix(secret[2], right);
    right ^= mix(secret[1], left);
    left ^= mix(secret[0], right);
    return left << kHalfBits | right;
  }

  /// `v` < 2^24, in both directions.
  std::uint32_t forward(std::uint32_t v) const {
    std::uint32_t left = v >> kHalfBits & kHalfMask;
    std::uint32_t right = v & kHalfMask;
    left ^= mix(secret_[0], right);
    right ^= mix(secret_[1], left);
    left ^= mix(secret_[2], right);
    right ^= mix(secret_[3], left);
    return left << kHalfBits | right;
  }

  std::uint32_t backward(std::uint32_t v) const { return backward_through(secret_, v); }

 private:
  static constexpr unsigned kHalfBits = 12;
  static constexpr std::uint32_t kHalfMask = (1U << kHalfBits) - 1;

  static std::uint64_t folded_product(std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
  static std::uint32_t mix(const Round& round, std::uint32_t half) {
    const std::uint64_t once = folded_product(half ^ round[0], round[1]);
    return static_cast<std::uint32_t>(folded_product(once ^ round[2], round[3])) & kHalfMask;
  }

  Secret secret_;
};

}  // namespace weft::base

// A secret permutation of the 24-bit numbers, so that slot numbers which peers see (keys,
// queue-pair numbers) cannot be guessed from one another. A Feistel network over two 12-bit halves
// whose four round functions are tables of random values. Filled once in the constructor;
// afterwards constant, any thread. Owned by the table whose slots it hides.
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
    random.fill(std::as_writable_bytes(std::span(rounds_)));
    for (auto& round : rounds_) {
      for (auto& value : round) value &= kHalfMask;
    }
  }

  /// For one who may know the secret; backward_through() undoes forward() with a copy of it.
  using Tables = std::array<std::array<std::uint16_t, 1U << 12>, 4>;
  const Tables& tables() const { return rounds_; }
  /// Whatever the tables hold: the result is below 2^24.
  static std::uint32_t backward_through(const Tables& tables, std::uint32_t v) {
    std::uint32_t left = v >> kHalfBits & kHalfMask;
    std::uint32_t right = v & kHalfMask;
    right ^= tables[3][left] & kHalfMask;
    left ^= tables[2][right] & kHalfMask;
    right ^= tables[1][left] & kHalfMask;
    left ^= tables[0][right] & kHalfMask;
    return left << kHalfBits | right;
  }

  /// `v` < 2^24, in both directions.
  std::uint32_t forward(std::uint32_t v) const {
    std::uint32_t left = v >> kHalfBits & kHalfMask;
    std::uint32_t right = v & kHalfMask;
    left ^= rounds_[0][right];
    right ^= rounds_[1][left];
    left ^= rounds_[2][right];
    right ^= rounds_[3][left];
    return left << kHalfBits | right;
  }

  std::uint32_t backward(std::uint32_t v) const {
    std::uint32_t left = v >> kHalfBits & kHalfMask;
    std::uint32_t right = v & kHalfMask;
    right ^= rounds_[3][left];
    left ^= rounds_[2][right];
    right ^= rounds_[1][left];
    left ^= rounds_[0][right];
    return left << kHalfBits | right;
  }

 private:
  static constexpr unsigned kHalfBits = 12;
  static constexpr std::uint32_t kHalfMask = (1U << kHalfBits) - 1;

  Tables rounds_;
};

}  // namespace weft::base

// Randomness as a dependency: the process gives keys and numbers from the kernel's generator, a
// simulation gives the same numbers again for the same seed. Thread-safe only where said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::base {

class Random {
 public:
  virtual ~Random() = default;
  virtual void fill(std::span<std::byte> out) = 0;

  template <class T>
  T draw() {
    T v;
    fill(std::as_writable_bytes(std::span(&v, 1)));
    return v;
  }
};

/// getrandom(2); any thread.
Random& system_random();

/// xoshiro256**: fast, seeded, repeatable; one thread.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed);
  void fill(std::span<std::byte> out) override;
  std::uint64_t next();
  /// Uniform in [0, bound); bound > 0.
  std::uint64_t below(std::uint64_t bound);
  /// True with the given probability in parts per million.
  bool chance_ppm(std::uint32_t ppm) { return below(1'000'000) < ppm; }

 private:
  std::uint64_t state_[4];
};

}  // namespace weft::base

#include "base/random.h"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/assert.h"

namespace weft::base {
namespace {

class SystemRandom final : public Random {
 public:
  void fill(std::span<std::byte> out) override {
    while (!out.empty()) {
      const ssize_t n = getrandom(out.data(), out.size(), 0);
      if (n < 0 && errno == EINTR) continue;
      WEFT_ASSERT(n > 0);  // Linux has had getrandom since 3.17; without it no key is safe.
      out = out.subspan(static_cast<std::size_t>(n));
    }
  }
};

}  // namespace

Random& system_random() {
  static SystemRandom instance;
  return instance;
}

SeededRandom::SeededRandom(std::uint64_t seed) {
  for (auto& word : state_) {  // splitmix64 spreads the seed over the state
    seed += 0x9e3779b97f4a7c15;
    std::uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    word = z ^ (z >> 31);
  }
}

std::uint64_t SeededRandom::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

__extension__ using Wide = unsigned __int128;

std::uint64_t SeededRandom::below(std::uint64_t bound) {
  WEFT_ASSERT(bound > 0);
  return static_cast<std::uint64_t>((Wide{next()} * bound) >> 64);
}

void SeededRandom::fill(std::span<std::byte> out) {
  while (!out.empty()) {
    const std::uint64_t word = next();
    const std::size_t n = std::min(out.size(), sizeof word);
    std::memcpy(out.data(), &word, n);
    out = out.subspan(n);
  }
}

}  // namespace weft::base

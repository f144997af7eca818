// Messages that can be checked byte by byte without having been seen before: each says which
// channel and which number it is, and the rest follows from that. Plain functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>

namespace weft::demo {

struct Head {
  std::uint32_t channel = 0, number = 0;
  std::uint32_t bytes = 0;
  std::uint32_t wants_echo = 0;
  std::uint64_t sent_ns = 0;
};

inline std::uint64_t word_of(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t x = seed + i * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  return x ^ (x >> 27);
}

inline std::uint64_t seed_of(const Head& head) {
  return std::uint64_t{head.channel} << 32 | head.number;
}

/// Fills `to`, whose size head.bytes says, with the head and what belongs to it.
inline void fill(const Head& head, std::span<std::byte> to) {
  std::memcpy(to.data(), &head, sizeof head);
  const std::uint64_t seed = seed_of(head);
  std::size_t at = sizeof head;
  for (std::uint64_t i = 0; at < to.size(); ++i) {
    const std::uint64_t word = word_of(seed, i);
    const std::size_t n = std::min(sizeof word, to.size() - at);
    std::memcpy(to.data() + at, &word, n);
    at += n;
  }
}

/// True: every byte is what the sender must have written. `head` is the message's.
inline bool verify(std::span<const std::byte> bytes, std::uint32_t channel, std::uint32_t number,
                   Head& head) {
  if (bytes.size() < sizeof head) return false;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.channel != channel || head.number != number || head.bytes != bytes.size()) return false;
  const std::uint64_t seed = seed_of(head);
  std::size_t at = sizeof head;
  for (std::uint64_t i = 0; at < bytes.size(); ++i) {
    const std::uint64_t word = word_of(seed, i);
    const std::size_t n = std::min(sizeof word, bytes.size() - at);
    if (std::memcmp(bytes.data() + at, &word, n) != 0) return false;
    at += n;
  }
  return true;
}

/// Few channels get most of the traffic, and the large messages.
class Skew {
 public:
  Skew(std::uint32_t channels, std::uint32_t seed) : channels_(channels), random_(seed) {}
  std::uint32_t channel() {
    const double u = std::uniform_real_distribution<>(0, 1)(random_);
    return static_cast<std::uint32_t>(u * u * u * u * channels_) % channels_;
  }
  /// A tenth of a percent of the channels has huge messages, five percent large ones.
  std::uint32_t bytes(std::uint32_t channel) {
    const auto pick = [this](std::uint32_t least, std::uint32_t most) {
      return least + static_cast<std::uint32_t>(random_() % (most - least + 1));
    };
    const std::uint32_t die = pick(0, 99);
    if (channel < channels_ / 1000 + 1 && die < 5) return pick(20'000, 400'000);
    if (channel < channels_ / 20 && die < 30) return pick(1'000, 16'000);
    return pick(sizeof(Head), 400);
  }

 private:
  std::uint32_t channels_;
  std::mt19937 random_;
};

}  // namespace weft::demo

// Bytes that can be recomputed from a number: what memory holds before anybody wrote to it, and
// what a message carries. A message of eight bytes or more begins with its own number, so that a
// checker can say which one it found instead. Stateless.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace weft::sim {

/// A good mixer of 64 bits (the finisher of splitmix64).
constexpr std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

/// Bytes [offset, offset + out.size()) of the endless sequence that `key` names.
inline void fill_pattern(std::uint64_t key, std::uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const std::uint64_t word = mix(key ^ mix(offset / 8));
    const std::size_t from = offset % 8;
    const std::size_t n = std::min(out.size(), 8 - from);
    std::memcpy(out.data(), reinterpret_cast<const std::byte*>(&word) + from, n);
    out = out.subspan(n);
    offset += n;
  }
}

/// The content of message `sequence` of the stream that `key` names.
inline void fill_message(std::uint64_t key, std::uint64_t sequence, std::span<std::byte> out) {
  fill_pattern(mix(key + sequence), 0, out);
  if (out.size() >= sizeof sequence) std::memcpy(out.data(), &sequence, sizeof sequence);
}

inline std::uint64_t sequence_in(std::span<const std::byte> message) {
  std::uint64_t sequence = 0;
  std::memcpy(&sequence, message.data(), std::min(message.size(), sizeof sequence));
  return sequence;
}

}  // namespace weft::sim

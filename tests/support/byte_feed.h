// Decisions drawn from the bytes of a fuzzer, one after the other; zeros when they run out. Lives
// for one input; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::test {

class ByteFeed {
 public:
  explicit ByteFeed(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  bool empty() const { return at_ == bytes_.size(); }
  std::uint8_t byte() { return empty() ? std::uint8_t{0} : bytes_[at_++]; }
  std::uint32_t below(std::uint32_t bound) { return byte() % bound; }
  /// Mostly small, either sign.
  std::int32_t offset() { return static_cast<std::int8_t>(byte()); }
  std::uint32_t word() {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | byte();
    return value;
  }
  template <class T, std::size_t N>
  const T& pick(const T (&choices)[N]) {
    return choices[below(N)];
  }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

}  // namespace weft::test

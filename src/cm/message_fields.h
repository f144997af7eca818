// Readers and writers of a message's fields, for message.cc alone: a kind lists its fields once,
// and either of these walks the list. Offsets are of whole words; bits count from the most
// significant one of the word at the offset, as the specification draws them. Used on the stack of
// one call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/assert.h"
#include "base/big_endian.h"
#include "mad/header.h"
#include "weft/types.h"

namespace weft::cm {

inline constexpr std::size_t kBodyBytes = mad::kBytes - mad::Header::kSize;

constexpr std::uint32_t mask_of(unsigned width) {
  return width == 32 ? ~std::uint32_t{0} : (std::uint32_t{1} << width) - 1;
}

class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> body) : body_(body) {
    WEFT_ASSERT(body.size() == kBodyBytes);
  }

  void u16(std::size_t at, std::uint16_t& v) { v = base::load_be<std::uint16_t>(&body_[at]); }
  void u32(std::size_t at, std::uint32_t& v) { v = base::load_be<std::uint32_t>(&body_[at]); }
  void u64(std::size_t at, std::uint64_t& v) { v = base::load_be<std::uint64_t>(&body_[at]); }
  template <class T>
  void bits(std::size_t at, unsigned first, unsigned width, T& v) {
    const auto word = base::load_be<std::uint32_t>(&body_[at]);
    v = static_cast<T>(word >> (32 - first - width) & mask_of(width));
  }
  void flag(std::size_t at, unsigned bit, bool& v) {
    std::uint8_t value = 0;
    bits(at, bit, 1, value);
    v = value != 0;
  }
  void psn(std::size_t at, Psn& v) { v = Psn(base::load_be24(&body_[at])); }
  template <class Bytes>
  void bytes(std::size_t at, Bytes& v) {
    static_assert(sizeof(v[0]) == 1);
    std::memcpy(v.data(), &body_[at], v.size());
  }
  void fail() { failed_ = true; }
  bool failed() const { return failed_; }

 private:
  std::span<const std::byte> body_;
  bool failed_ = false;
};

class FieldWriter {
 public:
  explicit FieldWriter(std::span<std::byte> body) : body_(body) {
    WEFT_ASSERT(body.size() == kBodyBytes);
  }

  void u16(std::size_t at, std::uint16_t v) { base::store_be(&body_[at], v); }
  void u32(std::size_t at, std::uint32_t v) { base::store_be(&body_[at], v); }
  void u64(std::size_t at, std::uint64_t v) { base::store_be(&body_[at], v); }
  template <class T>
  void bits(std::size_t at, unsigned first, unsigned width, T v) {
    const unsigned shift = 32 - first - width;
    const auto word = base::load_be<std::uint32_t>(&body_[at]) & ~(mask_of(width) << shift);
    base::store_be(&body_[at], word | (static_cast<std::uint32_t>(v) & mask_of(width)) << shift);
  }
  void flag(std::size_t at, unsigned bit, bool v) { bits(at, bit, 1, v ? 1U : 0U); }
  void psn(std::size_t at, Psn v) { base::store_be24(&body_[at], v.value()); }
  template <class Bytes>
  void bytes(std::size_t at, const Bytes& v) {
    std::memcpy(&body_[at], v.data(), v.size());
  }
  /// Whoever emits a value that does not exist has a bug.
  void fail() { WEFT_ASSERT(false && "a message with a value that does not exist"); }

 private:
  std::span<std::byte> body_;
};

}  // namespace weft::cm

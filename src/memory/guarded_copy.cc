#include <algorithm>
#include <bit>
#include <cstring>

#include "base/bulk_copy.h"
#include "memory/guard.h"
#include "memory/guard_leaves.h"

namespace weft::memory {
namespace {

constexpr std::size_t kWord = 8;
/// What a frame may bring: longer copies do not mind a recovery record.
constexpr std::size_t kLeafStringMost = 4096;

std::uintptr_t number(const std::byte* p) { return reinterpret_cast<std::uintptr_t>(p); }

// The bytes of one destination word that a copy ends with, read from the source beforehand.
struct Tail {
  std::byte bytes[kWord];
};

// Writes n <= 8 bytes inside one aligned word as aligned pieces, rising, each with release order,
// so that the last byte is last. What a reader of the last piece (acquire) sees, comes with all
// before.
void store_pieces(std::byte* to, const std::byte* from, std::size_t n) {
  while (n > 0) {
    const std::size_t alignment = number(to) % kWord == 0 ? kWord : number(to) & -number(to);
    const std::size_t size = std::min(std::bit_floor(n), alignment);
    const auto put = [&]<class T>(T value) {
      std::memcpy(&value, from, sizeof value);
      guard::before_atomic(to);
      __atomic_store_n(reinterpret_cast<T*>(to), value, __ATOMIC_RELEASE);
    };
    switch (size) {
      case 8:
        put(std::uint64_t{});
        break;
      case 4:
        put(std::uint32_t{});
        break;
      case 2:
        put(std::uint16_t{});
        break;
      default:
        put(std::uint8_t{});
        break;
    }
    to += size, from += size, n -= size;
  }
}

void copy_in_order(std::byte* to, const std::byte* from, std::size_t n) {
  const std::size_t in_last_word = (number(to) + n - 1) % kWord + 1;
  const std::size_t last = std::min(n, in_last_word);
  Tail tail;
  // Before the body is written, as that may overwrite the end of an overlapping source.
  std::memcpy(tail.bytes, from + (n - last), last);
  if (n > last) base::bulk_copy(to, from, n - last);
  store_pieces(to + (n - last), tail.bytes, last);
}

[[gnu::noinline]] Fault copy_under_guard(std::byte* to, const std::byte* from, std::size_t n) {
  return guarded_fault([=] { copy_in_order(to, from, n); });
}

}  // namespace

Fault guarded_copy_any(std::byte* to, const std::byte* from, std::size_t n) {
  if (n <= kWord && (number(to) & (n - 1)) == 0) {
    switch (n) {
      case 8:
        return weft_leaf_copy_8(to, from);
      case 4:
        return weft_leaf_copy_4(to, from);
      case 2:
        return weft_leaf_copy_2(to, from);
      case 1:
        return weft_leaf_copy_1(to, from);
      default:
        break;
    }
  }
  const bool words = ((number(to) | n) & (kWord - 1)) == 0;
  const bool apart = number(to) - number(from) >= n && number(from) - number(to) >= n;
  if (words && apart && n > kLeafWordsMost && n <= kLeafStringMost) {
    const Fault fault = weft_leaf_copy_string(to, from, n - kWord);
    return fault != Fault::kNone ? fault : weft_leaf_copy_8(to + n - kWord, from + n - kWord);
  }
  return n == 0 ? Fault::kNone : copy_under_guard(to, from, n);
}

Fault guarded_load(std::byte* to, const std::byte* from, std::size_t n) {
  return n <= kLeafStringMost ? weft_leaf_copy_string(to, from, n) : copy_under_guard(to, from, n);
}

Fault guarded_probe(std::byte* at, Intent intent) {
  return intent == Intent::kRead ? weft_leaf_read(at) : weft_leaf_touch(at);
}

Fault guarded_compare_swap(std::uint64_t* at, std::uint64_t compare, std::uint64_t swap,
                           std::uint64_t* old) {
  return weft_leaf_swap(at, compare, swap, old);
}

Fault guarded_fetch_add(std::uint64_t* at, std::uint64_t add, std::uint64_t* old) {
  return weft_leaf_add(at, add, old);
}

}  // namespace weft::memory

#include "memory/guard_leaves.h"

#if !defined(WEFT_X86_LEAVES)
#include <cstring>

#include "memory/guard.h"

using weft::memory::Fault;
using weft::memory::guarded_fault;

namespace weft::memory {

bool guard::leave_leaf(void*, Fault) { return false; }

namespace {

template <class T>
Fault copy_one(std::byte* to, const std::byte* from) {
  return guarded_fault([=] {
    T value;
    std::memcpy(&value, from, sizeof value);
    guard::before_atomic(to);
    __atomic_store_n(reinterpret_cast<T*>(to), value, __ATOMIC_RELEASE);
  });
}

// Not instrumented: the application may use these bytes at the same time. That is no race of
// weft's, since the probe changes nothing and drops what it read.
[[gnu::no_sanitize("thread"), gnu::noinline]] void read(std::byte* at) {
  static_cast<void>(*reinterpret_cast<volatile unsigned char*>(at));
}
[[gnu::no_sanitize("thread"), gnu::noinline]] void touch(std::byte* at) {
  __atomic_fetch_or(reinterpret_cast<unsigned char*>(at), static_cast<unsigned char>(0),
                    __ATOMIC_RELAXED);
}

}  // namespace

#if defined(WEFT_TSAN)
void guard::before_atomic(void* at) { touch(static_cast<std::byte*>(at)); }
#endif

}  // namespace weft::memory

extern "C" {

Fault weft_leaf_copy_1(std::byte* to, const std::byte* from) {
  return weft::memory::copy_one<std::uint8_t>(to, from);
}
Fault weft_leaf_copy_2(std::byte* to, const std::byte* from) {
  return weft::memory::copy_one<std::uint16_t>(to, from);
}
Fault weft_leaf_copy_4(std::byte* to, const std::byte* from) {
  return weft::memory::copy_one<std::uint32_t>(to, from);
}
Fault weft_leaf_copy_8(std::byte* to, const std::byte* from) {
  return weft::memory::copy_one<std::uint64_t>(to, from);
}
Fault weft_leaf_copy_words(std::byte* to, const std::byte* from, std::size_t n) {
  return guarded_fault([=] {
    std::byte all[72];
    std::memcpy(all, from, n);
    std::memcpy(to, all, n - 8);
    std::uint64_t last = 0;
    std::memcpy(&last, all + (n - 8), sizeof last);
    weft::memory::guard::before_atomic(to + (n - 8));
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(to + (n - 8)), last, __ATOMIC_RELEASE);
  });
}
Fault weft_leaf_copy_string(std::byte* to, const std::byte* from, std::size_t n) {
  return guarded_fault([=] { std::memcpy(to, from, n); });
}
Fault weft_leaf_read(std::byte* at) {
  return guarded_fault([=] { weft::memory::read(at); });
}
Fault weft_leaf_touch(std::byte* at) {
  return guarded_fault([=] { weft::memory::touch(at); });
}
Fault weft_leaf_swap(std::uint64_t* at, std::uint64_t compare, std::uint64_t swap,
                     std::uint64_t* old) {
  return guarded_fault([=] {
    *old = compare;
    weft::memory::guard::before_atomic(at);
    __atomic_compare_exchange_n(at, old, swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  });
}
Fault weft_leaf_add(std::uint64_t* at, std::uint64_t add, std::uint64_t* old) {
  return guarded_fault([=] {
    weft::memory::guard::before_atomic(at);
    *old = __atomic_fetch_add(at, add, __ATOMIC_SEQ_CST);
  });
}

}  // extern "C"
#endif

// The shortest guarded accesses: single instructions whose addresses the fault handler knows, so
// that they need no recovery record. Used only inside memory/; any thread. There is code for
// x86-64 (guard_leaves_x86.cc); other processors, and builds in which tsan must see each access,
// get the same functions from guard_leaves_portable.cc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/vmm.h"

#if defined(__SANITIZE_THREAD__)
#define WEFT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_TSAN 1
#endif
#endif
#if defined(__x86_64__) && !defined(WEFT_TSAN)
#define WEFT_X86_LEAVES 1
#endif

namespace weft::memory::guard {

/// For the handler: if the fault struck in a leaf, makes that leaf return `fault`.
bool leave_leaf(void* signal_context, Fault fault);

#if defined(WEFT_TSAN)
/// tsan's atomics hold its locks while they touch memory, and no long jump may leave them: so let a
/// fault strike here, in a write that changes nothing, before they are called.
void before_atomic(void* at);
#else
inline void before_atomic(void*) {}
#endif

}  // namespace weft::memory::guard

extern "C" {
// One load, then one release store, of that many bytes; `to` is aligned.
weft::memory::Fault weft_leaf_copy_1(std::byte* to, const std::byte* from);
weft::memory::Fault weft_leaf_copy_2(std::byte* to, const std::byte* from);
weft::memory::Fault weft_leaf_copy_4(std::byte* to, const std::byte* from);
weft::memory::Fault weft_leaf_copy_8(std::byte* to, const std::byte* from);
// Whole words, 16 to 72 bytes: all is read before the first is written, and the last word is
// written last (release); `to` is aligned.
weft::memory::Fault weft_leaf_copy_words(std::byte* to, const std::byte* from, std::size_t n);
// Any number of bytes in any order; they do not overlap.
weft::memory::Fault weft_leaf_copy_string(std::byte* to, const std::byte* from, std::size_t n);
// A read, and a write that changes nothing.
weft::memory::Fault weft_leaf_read(std::byte* at);
weft::memory::Fault weft_leaf_touch(std::byte* at);
// Locked read-modify-write of 8 aligned bytes.
weft::memory::Fault weft_leaf_swap(std::uint64_t* at, std::uint64_t compare, std::uint64_t swap,
                                   std::uint64_t* old);
weft::memory::Fault weft_leaf_add(std::uint64_t* at, std::uint64_t add, std::uint64_t* old);
}

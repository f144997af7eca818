// Touching memory that the application may have unmapped, truncated or protected: a fault inside a
// guard becomes a result instead of a signal. Any thread; guards nest. Faults outside a guard go to
// the program's own handlers (guard_signals.h). A thread that may have signals blocked calls
// guard::prepare_thread() first, as Flight does at a thread's first use. The work inside is a leaf:
// no locks, no allocation, only trivial destructors, since a fault leaves it by a long jump.
#pragma once

#include <setjmp.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "memory/guard_leaves.h"
#include "memory/vmm.h"

namespace weft::memory {

/// Installs the SIGSEGV and SIGBUS handlers, once per process; HostVmm's constructor calls it.
void install_guard();

namespace guard {

/// Where a fault of this thread continues; lives in the frame of guarded_fault().
struct Recovery {
  jmp_buf where;
  Recovery* outer;
};
// constinit and initial-exec: one load relative to the thread pointer, and safe in a handler.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local Recovery* current;

}  // namespace guard

/// Runs the leaf; tells which fault struck inside, if one did.
template <class Leaf>
[[gnu::noinline]] Fault guarded_fault(Leaf&& leaf) {
  guard::Recovery recovery;
  recovery.outer = guard::current;
  const int struck = _setjmp(recovery.where);
  if (struck == 0) {
    guard::current = &recovery;
    // The handler runs on this thread, so compiler barriers are all the order that it needs.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    std::forward<Leaf>(leaf)();
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  guard::current = recovery.outer;
  return static_cast<Fault>(struck);
}

/// Runs the leaf; false if SIGSEGV or SIGBUS struck inside.
template <class Leaf>
bool guarded(Leaf&& leaf) {
  return guarded_fault(std::forward<Leaf>(leaf)) == Fault::kNone;
}

/// What one leaf copies at a time, in whole words.
inline constexpr std::size_t kLeafWordsLeast = 16, kLeafWordsMost = 72;

/// guarded_copy() for all but a few whole words, which have a shorter way.
Fault guarded_copy_any(std::byte* to, const std::byte* from, std::size_t n);

/// Copies with both sides guarded; ranges may overlap. The end of the destination is written last:
/// its last aligned word (or what of it belongs to the range) follows all other bytes, with release
/// order. An aligned destination of 1, 2, 4 or 8 bytes is written by one store.
inline Fault guarded_copy(std::byte* to, const std::byte* from, std::size_t n) {
  if (n == 8 && reinterpret_cast<std::uintptr_t>(to) % 8 == 0) [[likely]] {
    return weft_leaf_copy_8(to, from);
  }
  if (n - kLeafWordsLeast <= kLeafWordsMost - kLeafWordsLeast &&
      ((reinterpret_cast<std::uintptr_t>(to) | n) & 7) == 0) {
    return weft_leaf_copy_words(to, from, n);
  }
  return guarded_copy_any(to, from, n);
}

/// Copies to memory that nobody else looks at, and that does not overlap the source.
Fault guarded_load(std::byte* to, const std::byte* from, std::size_t n);

/// Touches one byte without changing it, also while other threads write it.
Fault guarded_probe(std::byte* at, Intent intent);

/// Locked instructions on 8 aligned bytes; `*old` gets what was there.
Fault guarded_compare_swap(std::uint64_t* at, std::uint64_t compare, std::uint64_t swap,
                           std::uint64_t* old);
Fault guarded_fetch_add(std::uint64_t* at, std::uint64_t add, std::uint64_t* old);

}  // namespace weft::memory

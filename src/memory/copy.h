// Moving bytes between places: the one way in which weft touches users' memory. Programs poll on
// the end of a write, so the destination's last aligned 8-byte word (or what of it belongs to the
// range) is written after everything before it, with release order; aligned stores of 1, 2, 4 and 8
// bytes are single stores. Any thread, for places of a HostVmm. A fault is a result, never a
// signal; bytes before the faulting page may have been written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tl/expected.hpp>

#include "memory/guard.h"
#include "memory/vmm.h"

namespace weft::memory {

namespace detail {
Fault copy_mapped(Place to, Place from, std::size_t n);
Fault store_mapped(Place to, std::span<const std::byte> from);
Fault load_mapped(std::span<std::byte> to, Place from);
inline std::byte* pointer(Place place) { return reinterpret_cast<std::byte*>(place.address); }
}  // namespace detail

inline Fault copy(Place to, Place from, std::size_t n) {
  if (to.vmm->identity() && from.vmm->identity()) [[likely]] {
    return guarded_copy(detail::pointer(to), detail::pointer(from), n);
  }
  return detail::copy_mapped(to, from, n);
}

inline Fault store(Place to, std::span<const std::byte> from) {
  if (to.vmm->identity()) [[likely]] {
    return guarded_copy(detail::pointer(to), from.data(), from.size());
  }
  return detail::store_mapped(to, from);
}

inline Fault load(std::span<std::byte> to, Place from) {
  if (from.vmm->identity()) [[likely]] {
    return guarded_copy(to.data(), detail::pointer(from), to.size());
  }
  return detail::load_mapped(to, from);
}

/// Locked instructions on the real memory; they return the old value. The address is a multiple of
/// 8 (the caller checked the place, not only what the peer sent); another one is a kProtection.
tl::expected<std::uint64_t, Fault> compare_swap(Place at, std::uint64_t compare,
                                                std::uint64_t swap);
tl::expected<std::uint64_t, Fault> fetch_add(Place at, std::uint64_t add);
/// The same without a locked instruction: one store of 8 bytes, which readers see whole.
Fault store_word(Place at, std::uint64_t value);

}  // namespace weft::memory

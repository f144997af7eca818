// What may be done with registered memory, and the name of a protection domain. Plain values,
// freely copied, usable from any thread. The low bits equal libibverbs' IBV_ACCESS_* flags, so
// that the ABI folder passes them through.
#pragma once

#include <cstdint>

#include "weft/types.h"

namespace weft {

/// Protection domain: regions, windows and queue pairs work together only inside one.
using PdId = Strong<struct PdIdTag, std::uint32_t>;

enum class Access : std::uint32_t {
  kNone = 0,
  kLocalWrite = 1,
  kRemoteWrite = 2,
  kRemoteRead = 4,
  kRemoteAtomic = 8,
  kWindowBind = 16,
  kZeroBased = 32,           ///< peers count from 0 instead of from the owner's address
  kOneShot = 1U << 24,       ///< the remote key serves one operation, then no other
  kOpaqueAddress = 1U << 25  ///< peers get a random base address that says nothing about the real
};

constexpr Access operator|(Access a, Access b) {
  return static_cast<Access>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr Access operator&(Access a, Access b) {
  return static_cast<Access>(static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b));
}
constexpr Access operator~(Access a) { return static_cast<Access>(~static_cast<std::uint32_t>(a)); }
constexpr Access& operator|=(Access& a, Access b) { return a = a | b; }
constexpr Access& operator&=(Access& a, Access b) { return a = a & b; }

/// True when every right in `flag` is in `set`.
constexpr bool has(Access set, Access flag) { return (set & flag) == flag; }
/// True when at least one right in `flags` is in `set`.
constexpr bool has_any(Access set, Access flags) { return (set & flags) != Access::kNone; }

}  // namespace weft

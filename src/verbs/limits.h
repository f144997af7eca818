// The bounds of a device; each appears in the error message of a call that goes beyond it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::verbs {

inline constexpr std::size_t kMaxPorts = 8;
inline constexpr std::size_t kMaxAdapterPorts = 2;
inline constexpr std::uint32_t kHostQueuePairs = 1u << 20;
inline constexpr std::uint32_t kMaxQueuePairs = (1u << 24) - 2 * 4096;
inline constexpr std::uint32_t kAdapterQueuePairs = 8;
/// End-to-end contexts of the reliable datagram service.
inline constexpr std::uint32_t kMaxContexts = 1u << 17;
inline constexpr std::uint32_t kMaxQueueDepth = 1u << 16;
inline constexpr std::uint32_t kMaxCompletions = 1u << 22;
inline constexpr std::uint32_t kMaxRdAtomic = 128;
inline constexpr std::size_t kMaxWaitingEvents = 4096;

}  // namespace weft::verbs

// Figure 5: how much of a vector goes now, and whether it needs larger buffers. Pure functions; any
// thread.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/channel_settings.h"

namespace weft::channel {

inline std::uint64_t bytes_in(std::span<const iovec> vector) {
  std::uint64_t sum = 0;
  for (const iovec& element : vector) sum += element.iov_len;
  return sum;
}

/// Elements [0, count) are to be sent now, `bytes` in all. `use_large`: nothing goes now, the
/// channel is to grow to hold `wanted_bytes`.
struct Scan {
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t wanted_bytes = 0;
  bool use_large = false;
};

/// Oversized is strictly more than `threshold` (A3). `size_hint` counts with Policy::kCallerSays.
Scan scan_vector(std::span<const iovec> vector, std::uint64_t threshold, Policy policy,
                 std::uint64_t size_hint = 0);

}  // namespace weft::channel

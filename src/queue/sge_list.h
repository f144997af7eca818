// Walking a gather or scatter list by message offset. Stateless, inlined into its callers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "weft/work.h"

namespace weft::queue {

/// Calls visit(sge, offset inside it, bytes, bytes of the range before it) for each element that
/// message bytes [offset, offset + n) touch, and stops at the first status that is not kSuccess.
/// kLocalLengthError when the list is shorter than the range.
template <class Visit>
CompletionStatus for_each_part(std::span<const Sge> sges, std::uint64_t offset, std::uint64_t n,
                               Visit visit) {
  std::uint64_t done = 0;
  for (const Sge& sge : sges) {
    if (done == n) break;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const std::uint64_t part = std::min<std::uint64_t>(n - done, sge.length - offset);
    const CompletionStatus status = visit(sge, offset, part, done);
    if (status != CompletionStatus::kSuccess) return status;
    done += part;
    offset = 0;
  }
  return done == n ? CompletionStatus::kSuccess : CompletionStatus::kLocalLengthError;
}

inline std::uint64_t total_length(std::span<const Sge> sges) {
  std::uint64_t total = 0;
  for (const Sge& sge : sges) total += sge.length;
  return total;
}

}  // namespace weft::queue

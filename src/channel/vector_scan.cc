#include "channel/vector_scan.h"

#include <algorithm>

namespace weft::channel {
namespace {

struct Sizes {
  std::uint64_t sum = 0, largest = 0;
};

Sizes measure(std::span<const iovec> vector) {
  Sizes sizes;
  for (const iovec& element : vector) {
    sizes.sum += element.iov_len;
    sizes.largest = std::max<std::uint64_t>(sizes.largest, element.iov_len);
  }
  return sizes;
}

Scan in_order(std::span<const iovec> vector, std::uint64_t threshold) {
  Scan scan;
  for (std::size_t i = 0; i < vector.size(); ++i) {  // 564, 568, 570
    if (vector[i].iov_len > threshold) {             // 566
      scan.use_large = i == 0;                       // 572, 574
      scan.wanted_bytes = vector[i].iov_len;
      return scan;  // 576
    }
    scan.count = i + 1;  // 567
    scan.bytes += vector[i].iov_len;
  }
  return scan;
}

/// Elements are examined from the last one down, and the first that is oversized decides.
std::uint64_t last_oversized(std::span<const iovec> vector, std::uint64_t threshold) {
  for (std::size_t i = vector.size(); i-- > 0;) {
    if (vector[i].iov_len > threshold) return vector[i].iov_len;
  }
  return 0;
}

}  // namespace

Scan scan_vector(std::span<const iovec> vector, std::uint64_t threshold, Policy policy,
                 std::uint64_t size_hint) {
  if (policy == Policy::kInOrder) return in_order(vector, threshold);
  const Sizes sizes = measure(vector);
  std::uint64_t wanted = 0;  // oversized: what the large buffers have to hold
  switch (policy) {
    case Policy::kInOrder:
      break;
    case Policy::kAny:
      wanted = sizes.largest > threshold ? sizes.sum : 0;
      break;
    case Policy::kLargest:
      wanted = sizes.largest;
      break;
    case Policy::kSum:
      wanted = sizes.sum;
      break;
    case Policy::kFromLast:
      wanted = last_oversized(vector, threshold);
      break;
    case Policy::kCallerSays:
      wanted = size_hint;
  }
  if (wanted > threshold) return {0, 0, wanted, true};
  return {vector.size(), sizes.sum, 0, false};
}

}  // namespace weft::channel

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

Scan from_last(std::span<const iovec> vector, std::uint64_t threshold, const Sizes& sizes) {
  for (std::size_t i = vector.size(); i-- > 0;) {
    if (vector[i].iov_len > threshold) return {0, 0, vector[i].iov_len, true};
  }
  return {vector.size(), sizes.sum, 0, false};
}

}  // namespace

Scan scan_vector(std::span<const iovec> vector, std::uint64_t threshold, Policy policy,
                 std::uint64_t size_hint) {
  if (policy == Policy::kInOrder) return in_order(vector, threshold);
  const Sizes sizes = measure(vector);
  if (policy == Policy::kFromLast) return from_last(vector, threshold, sizes);
  std::uint64_t deciding = sizes.largest;
  if (policy == Policy::kSum) deciding = sizes.sum;
  if (policy == Policy::kCallerSays) deciding = size_hint;
  if (deciding > threshold) return {0, 0, deciding, true};
  return {vector.size(), sizes.sum, 0, false};
}

}  // namespace weft::channel

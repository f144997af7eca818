// Copies of datagrams that wait in a send queue, taken when they were posted. A device gathers a
// datagram's payload within microseconds, and programs count on it: UCX reuses a buffer when the
// peer has told it by other means that the datagram is not needed, without a look at its
// completion. Here one may wait for a process that has not answered the first call, or whose ring
// is full. Owned by a path; under the send_lock of its queue pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "queue/queue_pair.h"

namespace weft::path {

class KeptDatagrams {
 public:
  /// Of all copies of one queue pair.
  static constexpr std::size_t kMostBytes = 2 * 1024 * 1024;

  KeptDatagrams() = default;
  KeptDatagrams(const KeptDatagrams&) = delete;
  KeptDatagrams& operator=(const KeptDatagrams&) = delete;
  ~KeptDatagrams();

  /// Copies what waits and has not been looked at yet, as far as there is room. What finds none, or
  /// cannot be read, waits as it is.
  void keep(queue::QueuePair& qp);

  /// The oldest element; the copy, if there is one, has its payload behind it, inline.
  queue::SendWqe& front(queue::QueuePair& qp);

  /// What the copies take.
  std::size_t bytes() const { return bytes_; }

 private:
  /// In front of the element and its payload.
  struct alignas(std::max_align_t) Copy {
    Copy* next = nullptr;
    std::uint32_t index = 0;
    std::size_t bytes = 0;
  };
  Copy* copy(queue::QueuePair& qp, std::uint32_t index) const;
  void pop();

  Copy* first_ = nullptr;
  Copy* last_ = nullptr;
  std::uint32_t seen_ = 0;  ///< elements before this one were looked at
  std::size_t bytes_ = 0;
};

}  // namespace weft::path

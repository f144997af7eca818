#include "verbs/queue_pair_pool.h"

#include <fmt/format.h>

namespace weft::verbs {

Result<queue::QueuePair*> QueuePairPool::acquire(std::string_view device) {
  if (live_.fetch_add(1, std::memory_order_relaxed) >= most_) {
    live_.fetch_sub(1, std::memory_order_relaxed);
    return fail(Errc::kOutOfMemory,
                fmt::format("{}: all {} queue pairs are in use", device, most_));
  }
  auto qp = acquire_hidden();
  if (!qp) live_.fetch_sub(1, std::memory_order_relaxed);
  return qp;
}

Result<queue::QueuePair*> QueuePairPool::acquire_hidden() {
  std::uint32_t slot = 0;
  queue::QueuePair* const qp = table_.acquire(&slot);
  if (qp == nullptr) {
    return fail(Errc::kOutOfMemory, "no queue pair left, or no memory for more");
  }
  const auto qpn = numbers_.number_of(slot);
  if (!qpn) {
    table_.release(slot);
    return tl::unexpected(qpn.error());
  }
  qp->qpn = *qpn;
  return qp;
}

void QueuePairPool::release(queue::QueuePair& qp) {
  live_.fetch_sub(1, std::memory_order_relaxed);
  table_.release(numbers_.slot_of(qp.qpn));
}

}  // namespace weft::verbs

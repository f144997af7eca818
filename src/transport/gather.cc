#include "transport/gather.h"

#include "memory/flight.h"
#include "queue/sge_list.h"

namespace weft::transport {
using queue::for_each_part;

bool add_place(network::OutFrame& frame, memory::Place place, std::uint64_t n) {
  if (place.vmm->identity()) {
    frame.add_piece(nullptr, {reinterpret_cast<std::byte*>(place.address), n, 0});
    return true;
  }
  while (n > 0) {
    const auto view = place.vmm->map(place.address, n, memory::Intent::kRead);
    if (!view) return false;
    frame.add_piece(place.vmm, *view);
    place.address += view->size;
    n -= view->size;
  }
  return true;
}

CompletionStatus gather(queue::QueuePair& qp, const queue::SendWqe& wqe, std::uint32_t offset,
                        std::uint32_t n, network::OutFrame& frame) {
  if (n == 0) return CompletionStatus::kSuccess;
  if (wqe.is_inline()) {
    frame.add_inline({wqe.inline_bytes() + offset, n});
    return CompletionStatus::kSuccess;
  }
  return for_each_part(wqe.sge_list(), offset, n,
                       [&](const Sge& sge, std::uint64_t at, std::uint64_t part, std::uint64_t) {
                         const auto place = qp.shared->keys->keep_local(
                             sge.lkey, qp.pd, sge.address + at, part, memory::Intent::kRead);
                         if (!place || !add_place(frame, *place, part)) {
                           return CompletionStatus::kLocalProtectionError;
                         }
                         return CompletionStatus::kSuccess;
                       });
}

}  // namespace weft::transport

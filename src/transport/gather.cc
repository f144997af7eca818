#include "transport/gather.h"

#include "memory/copy.h"
#include "memory/flight.h"
#include "queue/sge_list.h"

namespace weft::transport {
using queue::for_each_part;

bool add_place(OutFrame& frame, memory::Place place, std::uint64_t n) {
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
                        std::uint32_t n, OutFrame& frame) {
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

namespace {

/// Publishes under Hold::kScatter.
CompletionStatus scatter_part(queue::QueuePair& qp, const Sge& sge, std::uint64_t at,
                              std::span<const std::byte> bytes) {
  const auto place = qp.shared->keys->check_local(sge.lkey, qp.pd, sge.address + at, bytes.size(),
                                                  memory::Intent::kWrite, memory::Hold::kScatter);
  if (!place) [[unlikely]]
    return CompletionStatus::kLocalProtectionError;
  if (memory::store(*place, bytes) != memory::Fault::kNone) [[unlikely]] {
    qp.count(obs::Counter::kVanishedMemory);
    return CompletionStatus::kLocalProtectionError;
  }
  return CompletionStatus::kSuccess;
}

}  // namespace

CompletionStatus scatter(queue::QueuePair& qp, std::span<const Sge> sges, std::uint64_t offset,
                         std::span<const std::byte> bytes) {
  if (bytes.empty()) return CompletionStatus::kSuccess;
  const memory::Flight::Adopted<memory::Hold::kScatter> flight;
  if (!sges.empty() && offset + bytes.size() <= sges.front().length) [[likely]] {
    return scatter_part(qp, sges.front(), offset, bytes);
  }
  return for_each_part(
      sges, offset, bytes.size(),
      [&](const Sge& sge, std::uint64_t at, std::uint64_t part, std::uint64_t done) {
        return scatter_part(qp, sge, at, bytes.subspan(done, part));
      });
}

}  // namespace weft::transport

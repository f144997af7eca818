// The copies of the direct path: message bytes between a send element and a peer's memory or
// receive buffer, every list element checked with its owner's keys. Stateless; the caller holds the
// initiator's send_lock and, for receive buffers, the peer's recv_lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "memory/copy.h"
#include "memory/flight.h"
#include "queue/queue_pair.h"
#include "queue/sge_list.h"

namespace weft::path {

/// A checked element of a list, published under `hold`.
inline tl::expected<memory::Place, memory::AccessError> check_part(queue::QueuePair& qp,
                                                                   const Sge& sge, std::uint64_t at,
                                                                   std::uint64_t part,
                                                                   memory::Intent intent,
                                                                   memory::Hold hold) {
  return qp.shared->keys->check_local(sge.lkey, qp.pd, sge.address + at, part, intent, hold);
}

/// Whose memory has gone, when bytes could not be copied? The initiator's own is looked at, and is
/// counted here; the peer's counts where the request is refused.
inline CompletionStatus blame(queue::QueuePair& qp, memory::Place own, std::uint64_t n,
                              memory::Intent intent, CompletionStatus on_fault) {
  if (own.vmm->check_now(own.address, n, intent) == memory::Fault::kNone) return on_fault;
  qp.count(obs::Counter::kVanishedMemory);
  return CompletionStatus::kLocalProtectionError;
}

/// Message bytes [offset, offset + n) of the element to a place of the peer.
inline CompletionStatus copy_out(queue::QueuePair& qp, queue::SendWqe& wqe, std::uint64_t offset,
                                 std::uint64_t n, memory::Place to, CompletionStatus on_fault) {
  if (wqe.is_inline()) {
    return memory::store(to, {wqe.inline_bytes() + offset, n}) == memory::Fault::kNone
               ? CompletionStatus::kSuccess
               : on_fault;
  }
  const CompletionStatus status = queue::for_each_part(
      wqe.sge_list(), offset, n,
      [&](const Sge& sge, std::uint64_t at, std::uint64_t part, std::uint64_t done) {
        const auto from =
            check_part(qp, sge, at, part, memory::Intent::kRead, memory::Hold::kLocal);
        if (!from) return CompletionStatus::kLocalProtectionError;
        return memory::copy({to.vmm, to.address + done}, *from, part) == memory::Fault::kNone
                   ? CompletionStatus::kSuccess
                   : blame(qp, *from, part, memory::Intent::kRead, on_fault);
      });
  memory::Flight::clear(memory::Hold::kLocal);
  return status;
}

/// Bytes of a place of the peer to [offset, offset + n) of what the element's list describes.
inline CompletionStatus copy_in(queue::QueuePair& qp, queue::SendWqe& wqe, std::uint64_t offset,
                                std::uint64_t n, memory::Place from, CompletionStatus on_fault) {
  const CompletionStatus status = queue::for_each_part(
      wqe.sge_list(), offset, n,
      [&](const Sge& sge, std::uint64_t at, std::uint64_t part, std::uint64_t done) {
        const auto to = check_part(qp, sge, at, part, memory::Intent::kWrite, memory::Hold::kLocal);
        if (!to) return CompletionStatus::kLocalProtectionError;
        return memory::copy(*to, {from.vmm, from.address + done}, part) == memory::Fault::kNone
                   ? CompletionStatus::kSuccess
                   : blame(qp, *to, part, memory::Intent::kWrite, on_fault);
      });
  memory::Flight::clear(memory::Hold::kLocal);
  return status;
}

/// Message bytes from `offset` on, of the list or inline, into our own hands. Memory that has gone
/// is not counted: check_gather() does that when the element fails.
inline CompletionStatus gather(queue::QueuePair& qp, queue::SendWqe& wqe, std::uint64_t offset,
                               std::span<std::byte> to) {
  if (wqe.is_inline()) {
    std::copy_n(wqe.inline_bytes() + offset, to.size(), to.data());
    return CompletionStatus::kSuccess;
  }
  const CompletionStatus status = queue::for_each_part(
      wqe.sge_list(), offset, to.size(),
      [&](const Sge& sge, std::uint64_t at, std::uint64_t part, std::uint64_t before) {
        const auto from =
            check_part(qp, sge, at, part, memory::Intent::kRead, memory::Hold::kLocal);
        return from && memory::load(to.subspan(before, part), *from) == memory::Fault::kNone
                   ? CompletionStatus::kSuccess
                   : CompletionStatus::kLocalProtectionError;
      });
  memory::Flight::clear(memory::Hold::kLocal);
  return status;
}

/// Whether the whole gather list can be read now; kSuccess, or how the element fails, for which
/// memory that has gone is counted.
CompletionStatus check_gather(queue::QueuePair& qp, const queue::SendWqe& wqe);

/// Who is at fault when a message cannot be put into a receive buffer.
struct Delivery {
  CompletionStatus sender = CompletionStatus::kSuccess;
  CompletionStatus receiver = CompletionStatus::kSuccess;
};

/// Message bytes [offset, offset + n) into the peer's receive buffer, `shift` bytes further on (the
/// global header of a datagram comes first).
Delivery copy_message(queue::QueuePair& qp, queue::SendWqe& wqe, queue::QueuePair& peer,
                      const queue::ReceiveWqe& receive, std::uint64_t offset, std::uint64_t n,
                      std::uint64_t shift);

}  // namespace weft::path

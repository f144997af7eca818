#include "path/direct_copy.h"

namespace weft::path {

CompletionStatus check_gather(queue::QueuePair& qp, const queue::SendWqe& wqe) {
  if (wqe.is_inline()) return CompletionStatus::kSuccess;
  const CompletionStatus status = queue::for_each_part(
      wqe.sge_list(), 0, wqe.length,
      [&](const Sge& sge, std::uint64_t at, std::uint64_t part, std::uint64_t) {
        const auto from =
            check_part(qp, sge, at, part, memory::Intent::kRead, memory::Hold::kLocal);
        if (!from) return CompletionStatus::kLocalProtectionError;
        if (from->vmm->check(from->address, part, memory::Intent::kRead) == memory::Fault::kNone) {
          return CompletionStatus::kSuccess;
        }
        qp.count(obs::Counter::kVanishedMemory);
        return CompletionStatus::kLocalProtectionError;
      });
  memory::Flight::clear(memory::Hold::kLocal);
  return status;
}

Delivery copy_message(queue::QueuePair& qp, queue::SendWqe& wqe, queue::QueuePair& peer,
                      const queue::ReceiveWqe& receive, std::uint64_t offset, std::uint64_t n,
                      std::uint64_t shift) {
  Delivery delivery;
  if (n == 0) return delivery;
  delivery.receiver = queue::for_each_part(
      receive.sges(), offset + shift, n,
      [&](const Sge& sge, std::uint64_t at, std::uint64_t part, std::uint64_t done) {
        const auto to =
            check_part(peer, sge, at, part, memory::Intent::kWrite, memory::Hold::kScatter);
        if (!to) return CompletionStatus::kLocalProtectionError;
        const CompletionStatus status =
            copy_out(qp, wqe, offset + done, part, *to, CompletionStatus::kRemoteOperationError);
        if (status == CompletionStatus::kLocalProtectionError) delivery.sender = status;
        if (status == CompletionStatus::kRemoteOperationError) {
          peer.count(obs::Counter::kVanishedMemory);
        }
        return status == CompletionStatus::kSuccess ? status
                                                    : CompletionStatus::kLocalProtectionError;
      });
  memory::Flight::clear(memory::Hold::kScatter);
  // A fault of the sender's own memory is not the receiver's.
  if (delivery.sender != CompletionStatus::kSuccess) {
    delivery.receiver = CompletionStatus::kSuccess;
  } else if (delivery.receiver == CompletionStatus::kLocalLengthError) {
    delivery.sender = CompletionStatus::kRemoteInvalidRequest;
  } else if (delivery.receiver != CompletionStatus::kSuccess) {
    delivery.sender = CompletionStatus::kRemoteOperationError;
  }
  return delivery;
}

}  // namespace weft::path

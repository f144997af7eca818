#include <algorithm>
#include <cstring>
#include <optional>

#include "memory/copy.h"
#include "path/neighbour_copy.h"
#include "path/neighbour_initiator.h"
#include "target/remote_access.h"

namespace weft::path {
namespace {

using host::FlightUse;

/// A write behind work in the ring goes through the ring too, up to here; a longer one waits.
constexpr std::uint32_t kRingWriteBytes = 4096;

}  // namespace

TargetPlace NeighbourInitiator::target_place(const SendWqe& wqe, host::FlightSlot& slot,
                                             std::uint64_t n, Access need) {
  slot.put(FlightUse::kQueuePair, peer_.flight);
  const RemoteAddress& remote = wqe.rdma.remote;
  if (offset_ == 0 && n < wqe.length) {
    const TargetPlace whole = check_target(*link_, peer_, slot, remote.key,
                                           peer_.request(remote.address, wqe.length, need));
    if (whole.verdict != TargetPlace::Verdict::kAllowed) return whole;
  }
  return check_target(*link_, peer_, slot, remote.key,
                      peer_.request(remote.address + offset_, n, need));
}

std::optional<Step> NeighbourInitiator::transfer(QueuePair& qp, SendWqe& wqe, Budget& budget,
                                                 Ask ask) {
  host::FlightSlot* slot = fast_path_.page().flight();
  // Which domain's keys count depends on the receive queue: that is the peer's business.
  if (parts_in_ring_ || slot == nullptr || qp.extended_initiator) {
    return through_ring(qp, wqe, budget, ask);
  }
  outbox_.leave();
  // More than a post may copy: the engine does all of it, in larger pieces.
  if (offset_ == 0 && wqe.length > budget.bytes && budget.bytes <= Budget().bytes) {
    budget.bytes = 0;
    return Step::kMore;
  }
  const host::FlightScope scope(slot);
  const bool writes = ask == Ask::kWrite;
  const std::uint64_t n = std::min<std::uint64_t>(wqe.length - offset_, budget.bytes);
  const TargetPlace place =
      target_place(wqe, *slot, n, writes ? Access::kRemoteWrite : Access::kRemoteRead);
  if (!peer_.holds()) return peer_missing(qp, wqe);
  if (place.verdict == TargetPlace::Verdict::kRefused) return refuse(qp, wqe, Complaint::kRefused);
  if (place.verdict == TargetPlace::Verdict::kOwnerMustExecute ||
      (place.mapped == nullptr && !link_->can_copy())) {
    return through_ring(qp, wqe, budget, ask);
  }
  switch (writes ? copy_to_target(qp, wqe, *link_, offset_, n, place)
                 : copy_from_target(qp, wqe, *link_, offset_, n, place)) {
    case Copied::kDone:
      break;
    case Copied::kOwnFault:
      return give_up(qp, CompletionStatus::kLocalProtectionError);
    case Copied::kTargetFault:
      return refuse(qp, wqe, Complaint::kVanished);
    case Copied::kTargetGone:
      return peer_missing(qp, wqe);
    case Copied::kNotAllowed:
      return through_ring(qp, wqe, budget, ask);
  }
  offset_ += static_cast<std::uint32_t>(n);
  budget.bytes -= n;
  if (offset_ < wqe.length) return Step::kMore;
  return {};
}

Step NeighbourInitiator::write(QueuePair& qp, SendWqe& wqe, Budget& budget) {
  if (offset_ < wqe.length) {
    if (!alone(qp)) {
      return wqe.length <= kRingWriteBytes ? through_ring(qp, wqe, budget, Ask::kWrite)
                                           : Step::kWait;
    }
    if (const auto step = transfer(qp, wqe, budget, Ask::kWrite)) return *step;
  }
  if (wqe.op == SendOp::kWrite) return alone(qp) ? finish(qp, wqe) : Step::kWait;
  wqe.started = true;
  const bool sent =
      put(qp, Ask::kNotify, 0, how_it_ends(wqe), [&](host::RecordHeader& header, std::byte*) {
        header.length = wqe.length;
        mark(wqe, header);
        return true;
      });
  return sent ? under_way() : Step::kWait;
}

Step NeighbourInitiator::read(QueuePair& qp, SendWqe& wqe, Budget& budget) {
  if (!alone(qp)) return Step::kWait;
  if (wqe.length > 0) {
    if (const auto step = transfer(qp, wqe, budget, Ask::kRead)) return *step;
  }
  return finish(qp, wqe);
}

namespace {

Ask ask_of(SendOp atomic) {
  if (atomic == SendOp::kAtomicWrite) return Ask::kAtomicWrite;
  return atomic == SendOp::kCompareSwap ? Ask::kCompareSwap : Ask::kFetchAdd;
}

}  // namespace

Step NeighbourInitiator::atomic(QueuePair& qp, SendWqe& wqe) {
  if (alone(qp) && wqe.rdma.remote.address % 8 == 0 && !qp.extended_initiator) {
    if (host::FlightSlot* slot = fast_path_.page().flight()) {
      const host::FlightScope scope(slot);
      const TargetPlace at = target_place(wqe, *slot, 8, target::need_of(wqe.op));
      if (!peer_.holds()) return peer_missing(qp, wqe);
      if (at.verdict == TargetPlace::Verdict::kRefused) {
        return refuse(qp, wqe, Complaint::kRefused);
      }
      if (at.verdict == TargetPlace::Verdict::kAllowed && at.mapped != nullptr) {
        return atomic_in_arena(qp, wqe, at.mapped);
      }
    }
  }
  const bool sent = put(qp, ask_of(wqe.op), sizeof(RemotePart), Ends::kAwaited,
                        [&](host::RecordHeader& header, std::byte* payload) {
                          header.flags |= kFirstPart | kLastPart;
                          header.length = 8;
                          const RemotePart part{wqe.rdma.remote.address, wqe.rdma.remote.key.value,
                                                0, wqe.rdma.compare, wqe.rdma.operand};
                          std::memcpy(payload, &part, sizeof part);
                          return true;
                        });
  return sent ? under_way() : Step::kWait;
}

Step NeighbourInitiator::atomic_in_arena(QueuePair& qp, SendWqe& wqe, std::byte* mapped) {
  const memory::Place place{qp.space, reinterpret_cast<std::uint64_t>(mapped)};
  if (wqe.op == SendOp::kAtomicWrite) {
    return memory::store_word(place, wqe.rdma.operand) == memory::Fault::kNone
               ? finish(qp, wqe)
               : refuse(qp, wqe, Complaint::kVanished);
  }
  const auto old = wqe.op == SendOp::kCompareSwap
                       ? memory::compare_swap(place, wqe.rdma.compare, wqe.rdma.operand)
                       : memory::fetch_add(place, wqe.rdma.operand);
  if (!old) return refuse(qp, wqe, Complaint::kVanished);
  return take_home(qp, wqe, 0, std::as_bytes(std::span(&*old, 1)))
             ? finish(qp, wqe)
             : give_up(qp, CompletionStatus::kLocalProtectionError);
}

}  // namespace weft::path

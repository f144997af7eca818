#include "path/neighbour_short_way.h"

#include "memory/flight.h"
#include "path/neighbour_copy.h"

namespace weft::path {

using memory::Flight;
using memory::Hold;

bool NeighbourShortWay::write(const TargetPeer& peer, const SendRequest& request) {
  host::FlightSlot* slot = page_.flight();
  if (slot == nullptr) [[unlikely]]
    return false;
  const Sge& sge = request.sges.front();
  const bool inlined = has(request.flags, SendFlags::kInline);
  if (!inlined) Flight::mine().put(Hold::kLocal, source_.entry);
  slot->put(host::FlightUse::kQueuePair, peer.flight);
  slot->put(host::FlightUse::kKey, target_.flight);
  Flight::order();
  host::flight_order(link_.fence);
  const auto* own =
      inlined ? reinterpret_cast<const std::byte*>(sge.address) : source_.at(sge.address);
  const bool done = peer.holds() && (inlined || source_.holds()) && target_.holds() &&
                    !link_.dead.load(std::memory_order_relaxed) &&
                    copy(own, request.remote.address - target_.base, sge.length);
  slot->clear();
  if (!inlined) Flight::clear(Hold::kLocal);
  if (!done) [[unlikely]]
    forget();
  return done;
}

bool NeighbourShortWay::copy(const std::byte* from, std::uint64_t offset, std::uint32_t n) const {
  if (target_.mapped == nullptr) {
    return write_by_system_call(link_, from, target_.target + offset, n);
  }
  return memory::guarded_copy(target_.mapped + offset, from, n) == memory::Fault::kNone;
}

bool NeighbourShortWay::read_registered(const Sge& sge, std::byte* to) {
  Flight::publish(Hold::kLocal, source_.entry);
  const bool done = source_.holds() && memory::guarded_copy(to, source_.at(sge.address),
                                                            sge.length) == memory::Fault::kNone;
  Flight::clear(Hold::kLocal);
  if (!done) [[unlikely]]
    forget();
  return done;
}

void NeighbourShortWay::remember(queue::QueuePair& qp, const TargetPeer& peer,
                                 const SendRequest& request) {
  const Sge& sge = request.sges.front();
  if (sge.length == 0) return;
  source_ = memory::grant_local(*qp.shared->keys, sge.lkey, qp.pd, memory::Intent::kRead);
  if (request.op == SendOp::kWrite) {
    target_ = grant_target(link_, peer, request.remote.key, Access::kRemoteWrite);
    unknowable_ = target_.entry == nullptr ? request.remote.key : RemoteKey();
  }
}

}  // namespace weft::path

#include "path/neighbour_short_way.h"

#include "memory/flight.h"
#include "path/neighbour_copy.h"

namespace weft::path {

using memory::Flight;
using memory::Hold;

/// Does copy() while both keys and the peer's queue pair are published and hold. Without `own`: the
/// bytes here have no key.
template <class Copy>
[[gnu::always_inline]] inline bool NeighbourShortWay::across(const TargetPeer& peer,
                                                             const memory::Grant<LocalKey>* own,
                                                             const TargetGrant& target, Copy copy) {
  host::FlightSlot* slot = page_.flight();
  if (slot == nullptr) [[unlikely]]
    return false;
  if (own != nullptr) Flight::mine().put(Hold::kLocal, own->entry);
  slot->put(host::FlightUse::kQueuePair, peer.flight);
  slot->put(host::FlightUse::kKey, target.flight);
  Flight::order();
  host::flight_order(link_.fence);
  const bool done = peer.holds() && (own == nullptr || own->holds()) && target.holds() &&
                    !link_.dead.load(std::memory_order_relaxed) && copy();
  slot->clear();
  if (own != nullptr) Flight::clear(Hold::kLocal);
  if (!done) [[unlikely]]
    forget();
  return done;
}

bool NeighbourShortWay::write(const TargetPeer& peer, const SendRequest& request) {
  const Sge& sge = request.sges.front();
  const bool inlined = has(request.flags, SendFlags::kInline);
  const auto* from =
      inlined ? reinterpret_cast<const std::byte*>(sge.address) : out_.own.at(sge.address);
  const TargetGrant& target = out_.target;
  return across(peer, inlined ? nullptr : &out_.own, target, [&] {
    const std::uint64_t offset = request.remote.address - target.base;
    if (target.mapped == nullptr) {
      return write_by_system_call(link_, from, target.target + offset, sge.length);
    }
    return memory::guarded_copy(target.mapped + offset, from, sge.length) == memory::Fault::kNone;
  });
}

bool NeighbourShortWay::read(const TargetPeer& peer, const SendRequest& request) {
  const Sge& sge = request.sges.front();
  std::byte* to = in_.own.at(sge.address);
  const TargetGrant& target = in_.target;
  return across(peer, &in_.own, target, [&] {
    const std::uint64_t offset = request.remote.address - target.base;
    if (target.mapped == nullptr) {
      return read_by_system_call(link_, to, target.target + offset, sge.length);
    }
    return memory::guarded_copy(to, target.mapped + offset, sge.length) == memory::Fault::kNone;
  });
}

bool NeighbourShortWay::gather_registered(const Sge& sge, std::byte* to) {
  const memory::Grant<LocalKey>& own = out_.own;
  Flight::publish(Hold::kLocal, own.entry);
  const bool done = own.holds() && memory::guarded_copy(to, own.at(sge.address), sge.length) ==
                                       memory::Fault::kNone;
  Flight::clear(Hold::kLocal);
  if (!done) [[unlikely]]
    forget();
  return done;
}

void NeighbourShortWay::remember(queue::QueuePair& qp, const TargetPeer& peer,
                                 const SendRequest& request) {
  const Sge& sge = request.sges.front();
  if (sge.length == 0) return;
  const bool reads = request.op == SendOp::kRead;
  Known& known = reads ? in_ : out_;
  known.own = memory::grant_local(*qp.shared->keys, sge.lkey, qp.pd,
                                  reads ? memory::Intent::kWrite : memory::Intent::kRead);
  if (!reads && request.op != SendOp::kWrite) return;
  known.target = grant_target(link_, peer, request.remote.key,
                              reads ? Access::kRemoteRead : Access::kRemoteWrite);
  known.unknowable = known.target.entry == nullptr ? request.remote.key : RemoteKey();
}

}  // namespace weft::path

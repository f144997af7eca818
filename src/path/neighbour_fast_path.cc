#include "path/neighbour_fast_path.h"

#include <algorithm>
#include <new>

namespace weft::path {

using memory::Flight;
using memory::Hold;

void NeighbourFastPath::forget() {
  out_ = {};
  other_.reset();
  if (in_ != nullptr) *in_ = {};
}

bool NeighbourFastPath::gather_registered(const Sge& sge, std::byte* to) {
  const memory::Grant<LocalKey>& own = out_.own;
  Flight::publish(Hold::kLocal, own.entry);
  const bool done = own.holds() && memory::guarded_copy(to, own.at(sge.address), sge.length) ==
                                       memory::Fault::kNone;
  Flight::clear(Hold::kLocal);
  if (!done) [[unlikely]]
    forget();
  return done;
}

void NeighbourFastPath::remember(host::Outbound& link, queue::QueuePair& qp, const TargetPeer& peer,
                                 const SendRequest& request) {
  const Sge& sge = request.sges.front();
  if (sge.length == 0) return;
  const bool reads = request.op == SendOp::kRead;
  if (reads && in_ == nullptr) {
    in_.reset(new (std::nothrow) Known);
    if (in_ == nullptr) return;
  }
  if (request.op == SendOp::kWrite && out_.target.entry != nullptr &&
      out_.target.key != request.remote.key) {
    if (other_ == nullptr) other_.reset(new (std::nothrow) Known);
    if (other_ != nullptr) std::swap(out_, *other_);
  }
  Known& known = reads ? *in_ : out_;
  known.own = memory::grant_local(*qp.shared->keys, sge.lkey, qp.pd,
                                  reads ? memory::Intent::kWrite : memory::Intent::kRead);
  if (!reads && request.op != SendOp::kWrite) return;
  known.target = grant_target(link, peer, request.remote.key,
                              reads ? Access::kRemoteRead : Access::kRemoteWrite);
  const bool found = known.target.entry != nullptr;
  known.uncacheable = found ? RemoteKey() : request.remote.key;
  known.uncacheable_in_a_row =
      found ? 0 : std::min<std::uint8_t>(known.uncacheable_in_a_row + 1, kMostUncacheable);
}

}  // namespace weft::path

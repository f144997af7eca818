// The shortest way of a small write into a peer's memory: with what an earlier check of each key
// found, no lookup and no fence (docs/memory-model.md), and in an arena no system call. Also reads
// the bytes of small sends. Owned by a path; under the send_lock of its queue pair.
#pragma once

#include <cstddef>
#include <span>

#include "host/link.h"
#include "memory/copy.h"
#include "memory/grant.h"
#include "path/neighbour_target.h"
#include "queue/queue_pair.h"
#include "weft/work.h"

namespace weft::path {

class NeighbourShortWay {
 public:
  NeighbourShortWay(host::Outbound& link, host::ProcessPage& page) : link_(link), page_(page) {}

  /// The one element of the request can be read without asking for its key: it is inline data, or
  /// its key is the one that is remembered.
  bool knows_source(const queue::QueuePair& qp, const SendRequest& request) const {
    const Sge& sge = request.sges.front();
    if (!has(request.flags, SendFlags::kInline)) {
      return source_.covers(sge.lkey, sge.address, sge.length);
    }
    return sge.length <= qp.sq.max_inline() && qp.space->identity();
  }
  bool knows_target(const SendRequest& request) const {
    return target_.covers(request.remote.key, request.remote.address, request.sges.front().length);
  }

  /// Does the write, whose source and target are known. False: nothing is remembered any more, and
  /// the long way will find out why.
  bool write(const TargetPeer& peer, const SendRequest& request);
  /// Reads the one element, whose source is known; the same.
  bool read(const SendRequest& request, std::byte* to) {
    const Sge& sge = request.sges.front();
    if (!has(request.flags, SendFlags::kInline)) return read_registered(sge, to);
    const auto* from = reinterpret_cast<const std::byte*>(sge.address);
    return memory::guarded_copy(to, from, sge.length) == memory::Fault::kNone;
  }

  /// Finds out about the keys of the request. Those that cannot be remembered are asked about only
  /// now and then.
  void remember(queue::QueuePair& qp, const TargetPeer& peer, const SendRequest& request);
  bool worth_asking(const SendRequest& request) {
    return request.op != SendOp::kWrite || request.remote.key != unknowable_ || ++passed_over_ == 0;
  }
  void forget() {
    source_ = {};
    target_ = {};
    unknowable_ = {};
  }

 private:
  bool read_registered(const Sge& sge, std::byte* to);
  bool copy(const std::byte* from, std::uint64_t offset, std::uint32_t n) const;

  host::Outbound& link_;
  host::ProcessPage& page_;
  memory::Grant<LocalKey> source_;
  TargetGrant target_;
  RemoteKey unknowable_;          ///< cannot be remembered
  std::uint8_t passed_over_ = 0;  ///< how often nobody asked again
};

}  // namespace weft::path

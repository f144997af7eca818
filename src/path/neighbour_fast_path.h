// The fast path of a small write into a peer's memory, or read from it: with what an earlier
// check of each key found, no lookup and no fence (docs/memory-model.md), and in an
// arena no system call. Also gathers the bytes of small sends. Owned by a path; under the send_lock
// of its queue pair.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "base/cache.h"
#include "host/link.h"
#include "memory/copy.h"
#include "memory/flight.h"
#include "memory/grant.h"
#include "path/neighbour_copy.h"
#include "path/neighbour_target.h"
#include "queue/queue_pair.h"
#include "weft/work.h"

namespace weft::path {

class NeighbourFastPath {
 public:
  explicit NeighbourFastPath(host::ProcessPage& page) : page_(page) {}

  host::ProcessPage& page() const { return page_; }

  /// The bytes that the request sends or writes can be read without asking for their key: they are
  /// inline, or the key is the one that is remembered.
  bool knows_source(const queue::QueuePair& qp, const SendRequest& request) const {
    const Sge& sge = request.sges.front();
    if (!has(request.flags, SendFlags::kInline)) {
      return out_.own.covers(sge.lkey, sge.address, sge.length);
    }
    return sge.length <= qp.sq.max_inline() && qp.space->identity();
  }
  bool knows_write(const queue::QueuePair& qp, const SendRequest& request) {
    if (knows_source(qp, request) && out_.covers_target(request)) [[likely]]
      return true;
    return other_ != nullptr && other_->covers_target(request) && turn_to_other(qp, request);
  }
  bool knows_read(const SendRequest& request) const {
    const Sge& sge = request.sges.front();
    return in_ != nullptr && in_->own.covers(sge.lkey, sge.address, sge.length) &&
           in_->covers_target(request);
  }

  // What is known is done. False: nothing is remembered any more, and the send queue will find out
  // why.
  [[gnu::always_inline]] bool write(host::Outbound& link, const TargetPeer& peer,
                                    const SendRequest& request) {
    const Sge& sge = request.sges.front();
    const bool inlined = has(request.flags, SendFlags::kInline);
    const auto* from =
        inlined ? reinterpret_cast<const std::byte*>(sge.address) : out_.own.at(sge.address);
    // Whoever watches the memory has its line: it travels while the checks are made.
    if (out_.target.mapped != nullptr) [[likely]] {
      base::fetch_for_write(out_.target.mapped + (request.remote.address - out_.target.base));
    }
    return across(link, peer, out_, !inlined, [&](const TargetGrant& target) {
      const std::uint64_t offset = request.remote.address - target.base;
      if (target.mapped == nullptr) {
        return write_by_system_call(link, from, target.target + offset, sge.length);
      }
      return memory::guarded_copy(target.mapped + offset, from, sge.length) == memory::Fault::kNone;
    });
  }
  bool read(host::Outbound& link, const TargetPeer& peer, const SendRequest& request) {
    const Sge& sge = request.sges.front();
    std::byte* to = in_->own.at(sge.address);
    return across(link, peer, *in_, true, [&](const TargetGrant& target) {
      const std::uint64_t offset = request.remote.address - target.base;
      if (target.mapped == nullptr) {
        return read_by_system_call(link, to, target.target + offset, sge.length);
      }
      return memory::guarded_copy(to, target.mapped + offset, sge.length) == memory::Fault::kNone;
    });
  }
  /// The bytes of a send, or of a write.
  bool gather(const SendRequest& request, std::byte* to) {
    const Sge& sge = request.sges.front();
    if (!has(request.flags, SendFlags::kInline)) return gather_registered(sge, to);
    const auto* from = reinterpret_cast<const std::byte*>(sge.address);
    return memory::guarded_copy(to, from, sge.length) == memory::Fault::kNone;
  }

  /// Finds out about the keys of the request. Those that cannot be remembered are asked about only
  /// now and then, and so is any key while each message comes with a new one of that kind.
  void remember(host::Outbound& link, queue::QueuePair& qp, const TargetPeer& peer,
                const SendRequest& request);
  bool worth_asking(const SendRequest& request) {
    Known* known = request.op == SendOp::kRead ? in_.get() : &out_;
    if (known == nullptr) return true;
    const bool stranger =
        request.remote.key == known->uncacheable || known->uncacheable_in_a_row >= kMostUncacheable;
    return !stranger || ++known->passed_over == 0;
  }
  /// Out of line: the fast paths, which may come to this, need no registers for it.
  [[gnu::noinline, gnu::cold]] void forget();

 private:
  /// After so many in a row the next one will hardly be another kind.
  static constexpr std::uint8_t kMostUncacheable = 8;

  /// Of one direction.
  struct Known {
    memory::Grant<LocalKey> own;
    TargetGrant target;
    RemoteKey uncacheable;         ///< a target's that cannot be remembered
    std::uint8_t passed_over = 0;  ///< how often nobody asked again
    std::uint8_t uncacheable_in_a_row =
        0;  ///< keys, one after the other, that could not be remembered

    bool covers_target(const SendRequest& request) const {
      return target.covers(request.remote.key, request.remote.address, request.sges.front().length);
    }
  };
  bool gather_registered(const Sge& sge, std::byte* to);
  /// What was written to before the last comes to the front.
  bool turn_to_other(const queue::QueuePair& qp, const SendRequest& request) {
    std::swap(out_, *other_);
    return knows_source(qp, request);
  }
  /// Does copy(target) while the target's key and queue pair, and our own key where there is one,
  /// are published and hold.
  template <class Copy>
  [[gnu::always_inline]] bool across(const host::Outbound& link, const TargetPeer& peer,
                                     const Known& known, bool registered, Copy copy) {
    host::FlightSlot* slot = page_.flight();
    if (slot == nullptr) [[unlikely]]
      return false;
    if (registered) memory::Flight::mine().put(memory::Hold::kLocal, known.own.entry);
    slot->put(host::FlightUse::kQueuePair, peer.flight);
    slot->put(host::FlightUse::kKey, known.target.flight);
    memory::Flight::order();
    host::flight_order(known.target.fence);
    const bool done =
        peer.holds() && (!registered || known.own.holds()) && known.target.holds() &&
        !link.dead.load(std::memory_order_relaxed) &&
        link.arenas_changed.load(std::memory_order_relaxed) == known.target.arenas_changed &&
        copy(known.target);
    slot->clear();
    if (registered) memory::Flight::clear(memory::Hold::kLocal);
    if (!done) [[unlikely]]
      forget();
    return done;
  }

  host::ProcessPage& page_;
  Known out_;
  std::unique_ptr<Known> other_;  ///< for who writes in turns by two keys; made by the second
  std::unique_ptr<Known> in_;     ///< made by the first read
};

}  // namespace weft::path

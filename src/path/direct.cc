#include "path/direct.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "base/fast_paths.h"
#include "memory/copy.h"
#include "memory/flight.h"
#include "memory/grant.h"
#include "network/address.h"
#include "network/roce.h"
#include "obs/log.h"
#include "path/direct_copy.h"
#include "path/initiator.h"
#include "path/kept_datagrams.h"
#include "path/neighbours.h"
#include "queue/scatter.h"
#include "queue/xrc_domain.h"
#include "target/message.h"
#include "target/remote_access.h"
#include "transport/message.h"

namespace weft::path {
namespace {

using memory::Flight;
using memory::Hold;
using queue::Budget;
using queue::QueuePair;
using queue::SendWqe;
using target::Refusal;

/// How often a neighbour that has not answered yet, or whose ring is full, is tried again.
constexpr Nanoseconds kNeighbourRecheck_ns = 20'000;
/// How long a multicast waits, once, for a member that does not go on.
constexpr Nanoseconds kMulticastPatience_ns = 1'000'000'000;

class DirectPath final : public Initiator {
 public:
  DirectPath(const QueuePair& qp, Directory& directory, Neighbours* neighbours)
      : Initiator(qp), directory_(directory), neighbours_(neighbours) {}

  void advance(QueuePair& qp, queue::SendGuard guard, Budget budget) override {
    if (qp.state.load(std::memory_order_relaxed) != QpState::kSendQueueDrained) {
      told_drained_ = false;
    }
    while (!qp.sq.empty() && qp.can_send()) {
      if (offset_ == 0 && !started_ &&
          qp.state.load(std::memory_order_relaxed) == QpState::kSendQueueDrained) {
        tell_drained(qp);
        return;
      }
      if (budget.bytes == 0 || budget.requests-- == 0) {
        qp.shared->scheduler->run_soon(qp);
        return keep_waiting(qp);
      }
      SendWqe& wqe = kept_ == nullptr ? qp.sq.front() : kept_->front(qp);
      const Step step = execute(qp, wqe, budget);
      Flight::clear(Hold::kPeer);
      if (step == Step::kWait) return keep_waiting(qp);
    }
    kept_.reset();
    if (qp.sq.empty()) tell_drained(qp);
    guard.unlock();
  }

  queue::PeerView look_at_peer(QueuePair& qp, RemoteKey key) override {
    queue::PeerView view;
    const auto table = directory_.find(qp.attributes.remote_gid, qp.attributes.remote_qpn);
    QueuePair* peer = table != nullptr ? table->find(qp.attributes.remote_qpn) : nullptr;
    view.peer = peer == nullptr        ? queue::PeerView::Peer::kNobody
                : !peer->can_receive() ? queue::PeerView::Peer::kNotReady
                                       : queue::PeerView::Peer::kReady;
    if (peer == nullptr) return view;
    const Flight::Adopted<Hold::kPeer> flight;
    view.peer_allows = peer->attributes.access;
    const memory::KeyTable::Entry* entry = peer->shared->keys->find(key);
    show_key(view, entry, key, peer->pd);
    return view;
  }

  bool fast_post(QueuePair& qp, const SendRequest& request) override {
    if (!is_small(SendOp::kWrite, request) || has(request.flags, SendFlags::kInline) ||
        !qp.sq.empty()) {
      return false;
    }
    const Sge& sge = request.sges.front();
    const RemoteAddress& remote = request.remote;
    if (!source_.covers(sge.lkey, sge.address, sge.length) ||
        !target_.covers(remote.key, remote.address, sge.length)) [[unlikely]] {
      if (!target_.is_fenced(remote.key)) return remember(qp, sge, remote);
      if (!copy_by_window(qp, sge, remote)) return false;
    } else {
      Flight::Slot& slot = Flight::mine();
      slot.put(Hold::kPeer, peer_);
      slot.put(Hold::kLocal, source_.entry);
      slot.put(Hold::kRemote, target_.entry);
      Flight::order();
      const bool done = peer_->epoch.load(std::memory_order_acquire) == peer_epoch_ &&
                        source_.holds() && target_.holds() &&
                        memory::guarded_copy(target_.at(remote.address), source_.at(sge.address),
                                             sge.length) == memory::Fault::kNone;
      Flight::clear(Hold::kPeer, Hold::kLocal, Hold::kRemote);
      if (!done) [[unlikely]]
        return forget_grants();
    }
    fast_complete(qp, request, CompletionOp::kWrite);
    return true;
  }

  void stop(QueuePair& qp) override {
    forget_progress();
    kept_.reset();
    if (qp.state.load(std::memory_order_relaxed) == QpState::kSendQueueError) return;
    target::return_receive(qp, std::exchange(partial_receive, nullptr));
  }

 private:
  /// Datagrams that have to wait keep what they were posted with; not those behind a delay, which
  /// were meant to wait.
  void keep_waiting(QueuePair& qp) {
    if (qp.service != Service::kUnreliableDatagram || qp.sq.front().op == SendOp::kDelay) return;
    if (kept_ == nullptr) kept_.reset(new (std::nothrow) KeptDatagrams);
    if (kept_ != nullptr) kept_->keep(qp);
  }

  // ---- the front element -------------------------------------------------------------------

  Step execute(QueuePair& qp, SendWqe& wqe, Budget& budget) {
    if (pauses(qp)) return Step::kWait;
    if (qp.extended_initiator && !transport::is_local(wqe.op)) [[unlikely]] {
      if (const auto step = choose(qp, wqe)) return *step;
    }
    switch (wqe.op) {
      case SendOp::kWrite:
      case SendOp::kWriteImmediate:
        return write(qp, wqe, budget);
      case SendOp::kRead:
        return read(qp, wqe, budget);
      case SendOp::kSend:
      case SendOp::kSendImmediate:
      case SendOp::kSendInvalidate:
        return qp.service == Service::kUnreliableDatagram ? datagram(qp, wqe)
                                                          : send(qp, wqe, budget);
      case SendOp::kCompareSwap:
      case SendOp::kFetchAdd:
      case SendOp::kAtomicWrite:
        return atomic(qp, wqe);
      case SendOp::kDelay:
        return delay(qp, wqe);
      case SendOp::kBind:
      case SendOp::kLocalInvalidate: {
        const CompletionStatus status = transport::run_local(qp, wqe);
        return status == CompletionStatus::kSuccess ? done(qp, wqe) : fail(qp, status);
      }
    }
    return Step::kNext;
  }

  /// The peer's target refuses the request: on the wire a NAK would kill both queue pairs, while an
  /// unreliable peer would drop the message and say nothing.
  Step refuse(QueuePair& qp, SendWqe& wqe, QueuePair& peer, Refusal refusal) {
    if (const auto own = own_fault(qp, wqe)) return fail(qp, *own);
    target::report(peer, refusal);
    if (!reliable_) return complete_dropped(qp, wqe);
    if (!datagram_) fail_queue_pair(peer);
    return fail(qp, status_of(refusal));
  }

  // ---- the peer ----------------------------------------------------------------------------

  /// The connected peer, published under kPeer and able to receive; nullptr if it is not there.
  QueuePair* find_peer(QueuePair& qp) {
    if (peer_ != nullptr) [[likely]] {
      Flight::publish(Hold::kPeer, peer_);
      if (peer_->epoch.load(std::memory_order_acquire) == peer_epoch_ && peer_->can_receive()) {
        return peer_;
      }
      Flight::clear(Hold::kPeer);
    }
    return look_up_peer(qp);
  }

  /// The peer that the element is for.
  QueuePair* find_peer(QueuePair& qp, const SendWqe& wqe) {
    return datagram_ ? find_datagram_peer(wqe) : find_peer(qp);
  }

  [[gnu::noinline]] QueuePair* find_datagram_peer(const SendWqe& wqe) {
    const queue::Route& route = queue::SendQueue::route_of(wqe);
    peer_table_ = directory_.find(route.destination.gid, route.qpn);
    if (peer_table_ == nullptr) return nullptr;
    QueuePair* const peer = peer_table_->find(route.qpn);
    if (peer == nullptr) return nullptr;
    const bool takes = peer->service == Service::kReliableDatagram && peer->can_receive() &&
                       peer->local_gid == route.destination.gid && peer->path != nullptr &&
                       peer->path->frame_receiver() == nullptr;
    if (takes && peer->attributes.qkey == route.qkey) return peer;
    if (takes) peer->count(obs::Counter::kBadQKey);
    Flight::clear(Hold::kPeer);
    return nullptr;
  }

  /// Nobody takes the element now. A connection waits for its peer; of another address of this
  /// process it is known at once whether it is there.
  Step no_taker(QueuePair& qp, SendWqe& wqe) {
    if (!datagram_) return no_peer(qp, wqe);
    if (const auto own = own_fault(qp, wqe)) return fail(qp, *own);
    if (peer_table_ != nullptr) return fail(qp, CompletionStatus::kRemoteInvalidRdRequest);
    if (!std::exchange(told_where_, true)) {
      obs::log().warn(
          "reliable datagrams to {}: nobody in this process has that address, and this device has "
          "no port on the network (on_network) to reach others",
          network::to_string(queue::SendQueue::route_of(wqe).destination.gid));
    }
    return fail(qp, CompletionStatus::kRetryExceeded);
  }

  [[gnu::noinline]] QueuePair* look_up_peer(QueuePair& qp) {
    peer_ = nullptr;
    peer_table_ = directory_.find(qp.attributes.remote_gid, qp.attributes.remote_qpn);
    if (peer_table_ == nullptr) return nullptr;
    QueuePair* peer = peer_table_->find(qp.attributes.remote_qpn);
    if (peer == nullptr) return nullptr;
    const std::uint32_t epoch = peer->epoch.load(std::memory_order_acquire);
    const bool ours =
        peer->can_receive() && queue::shown_service(*peer) == queue::wanted_service(qp) &&
        peer->attributes.remote_qpn == qp.qpn && peer->attributes.remote_gid == qp.local_gid &&
        peer->path != nullptr && peer->path->frame_receiver() == nullptr;
    if (!ours) {
      Flight::clear(Hold::kPeer);
      return nullptr;
    }
    peer_ = peer;
    peer_epoch_ = epoch;
    forget_grants();
    return peer;
  }

  Step receiver_not_ready(QueuePair& qp, SendWqe& wqe, QueuePair& peer) {
    if (reliable_) return not_ready(qp, peer.attributes.min_rnr_timer);
    peer.count(obs::Counter::kDroppedMessages);
    return complete_dropped(qp, wqe);
  }

  /// The copy of fast_post() for a remote key that is checked behind a fence.
  [[gnu::noinline]] bool copy_by_window(QueuePair& qp, const Sge& sge,
                                        const RemoteAddress& remote) {
    if (!source_.covers(sge.lkey, sge.address, sge.length)) return remember(qp, sge, remote);
    Flight::Slot& slot = Flight::mine();
    slot.put(Hold::kPeer, peer_);
    slot.put(Hold::kLocal, source_.entry);
    slot.put(Hold::kRemote, target_.entry);
    Flight::fence();
    const memory::KeyEntry& bound = *target_.entry;
    const bool done =
        peer_->epoch.load(std::memory_order_acquire) == peer_epoch_ && source_.holds() &&
        target_.holds() && memory::inside(remote.address, sge.length, bound.base, bound.length) &&
        memory::guarded_copy(target_.at(remote.address), source_.at(sge.address), sge.length) ==
            memory::Fault::kNone;
    Flight::clear(Hold::kPeer, Hold::kLocal, Hold::kRemote);
    return done || forget_grants();
  }

  /// Finds out what fast_post() needs to know next time; this time the send queue executes it.
  [[gnu::noinline, gnu::cold]] bool remember(QueuePair& qp, const Sge& sge,
                                             const RemoteAddress& remote) {
    if (!base::fast_paths.on() || qp.extended_initiator || datagram_ || find_peer(qp) == nullptr) {
      return false;
    }
    const bool serves =
        peer_->shared->serves_rdma && has(peer_->attributes.access, Access::kRemoteWrite);
    if (serves && sge.length != 0) {
      source_ = memory::grant_local(*qp.shared->keys, sge.lkey, qp.pd, memory::Intent::kRead);
      target_ = memory::grant_remote(*peer_->shared->keys, remote.key, peer_->pd, peer_->qpn,
                                     Access::kRemoteWrite);
    }
    Flight::clear(Hold::kPeer);
    return false;
  }

  [[gnu::noinline, gnu::cold]] bool forget_grants() {
    source_ = {};
    target_ = {};
    return false;
  }

  /// The peer's receive queue that the element is for becomes the one that it takes from. Nothing:
  /// go on.
  [[gnu::noinline]] std::optional<Step> choose(QueuePair& qp, SendWqe& wqe) {
    QueuePair* peer = find_peer(qp);
    if (peer == nullptr) return no_peer(qp, wqe);
    {
      const std::lock_guard guard(peer->recv_lock);
      if (!peer->can_receive()) return no_peer(qp, wqe);
      if (offset_ == 0) {
        auto& left = peer->path->partial_receive;
        target::return_receive(*peer, std::exchange(left, nullptr));
      }
      if (peer->xrc_domain->select(*peer, wqe.remote_srq)) return {};
    }
    return refuse(qp, wqe, *peer, Refusal::kInvalid);
  }

  // ---- memory semantics --------------------------------------------------------------------

  /// Names the whole operation for one-shot keys, however many parts it takes.
  std::uint64_t use(QueuePair& qp) {
    if (!started_) {
      started_ = true;
      ++qp.last_initiated;
    }
    return qp.last_initiated;
  }

  /// The peer's memory for bytes [offset_, offset_ + n) of the element.
  tl::expected<memory::Place, memory::AccessError> remote_place(QueuePair& qp, const SendWqe& wqe,
                                                                QueuePair& peer, std::uint64_t n,
                                                                Access need) {
    const RemoteAddress& remote = wqe.rdma.remote;
    return target::open(peer, {.key = remote.key,
                               .address = remote.address + offset_,
                               .bytes = n,
                               .request_bytes = offset_ == 0 ? wqe.length : n,
                               .need = need,
                               .use = use(qp)});
  }

  Step write(QueuePair& qp, SendWqe& wqe, Budget& budget) {
    QueuePair* peer = find_peer(qp, wqe);
    if (peer == nullptr) return no_taker(qp, wqe);
    const std::uint64_t n = std::min<std::uint64_t>(wqe.length - offset_, budget.bytes);
    if (n > 0) {
      const auto to = remote_place(qp, wqe, *peer, n, Access::kRemoteWrite);
      if (!to) return refuse(qp, wqe, *peer, Refusal::kAccess);
      const CompletionStatus status =
          copy_out(qp, wqe, offset_, n, *to, CompletionStatus::kRemoteAccessError);
      Flight::clear(Hold::kRemote);
      if (status != CompletionStatus::kSuccess) return copy_failed(qp, wqe, *peer, status);
      offset_ += static_cast<std::uint32_t>(n);
      budget.bytes -= n;
      if (offset_ < wqe.length) return Step::kMore;
    }
    if (wqe.op == SendOp::kWriteImmediate) return notify(qp, wqe, *peer);
    return done(qp, wqe);
  }

  Step copy_failed(QueuePair& qp, SendWqe& wqe, QueuePair& peer, CompletionStatus status) {
    if (status == CompletionStatus::kLocalProtectionError) return fail(qp, status);
    peer.count(obs::Counter::kVanishedMemory);
    return refuse(qp, wqe, peer, Refusal::kAccess);
  }

  /// What the peer's program learns of the element.
  static target::MessageInfo message_info(const QueuePair& qp, const SendWqe& wqe) {
    return {.bytes = wqe.length,
            .source_qp = qp.qpn,
            .solicited = has(wqe.flags, SendFlags::kSolicited),
            .has_immediate = wqe.op == SendOp::kSendImmediate || wqe.op == SendOp::kWriteImmediate,
            .invalidates = wqe.op == SendOp::kSendInvalidate,
            .immediate = wqe.immediate};
  }

  /// The immediate of a write whose data has landed.
  Step notify(QueuePair& qp, SendWqe& wqe, QueuePair& peer) {
    const std::lock_guard guard(peer.recv_lock);
    if (!peer.can_receive()) return no_taker(qp, wqe);
    queue::ReceiveWqe* buffer = nullptr;
    if (datagram_) buffer = std::exchange(peer.path->partial_receive, nullptr);
    if (buffer == nullptr) buffer = target::take_receive(peer);
    if (buffer == nullptr) return receiver_not_ready(qp, wqe, peer);
    target::notify(peer, buffer, message_info(qp, wqe));
    return done(qp, wqe);
  }

  Step read(QueuePair& qp, SendWqe& wqe, Budget& budget) {
    QueuePair* peer = find_peer(qp, wqe);
    if (peer == nullptr) return no_taker(qp, wqe);
    const std::uint64_t n = std::min<std::uint64_t>(wqe.length - offset_, budget.bytes);
    if (n > 0) {
      const auto from = remote_place(qp, wqe, *peer, n, Access::kRemoteRead);
      if (!from) return refuse(qp, wqe, *peer, Refusal::kAccess);
      const CompletionStatus status =
          copy_in(qp, wqe, offset_, n, *from, CompletionStatus::kRemoteAccessError);
      Flight::clear(Hold::kRemote);
      if (status != CompletionStatus::kSuccess) return copy_failed(qp, wqe, *peer, status);
      offset_ += static_cast<std::uint32_t>(n);
      budget.bytes -= n;
      if (offset_ < wqe.length) return Step::kMore;
    }
    return done(qp, wqe);
  }

  Step atomic(QueuePair& qp, SendWqe& wqe) {
    QueuePair* peer = find_peer(qp, wqe);
    if (peer == nullptr) return no_taker(qp, wqe);
    const auto original = target::execute(*peer,
                                          {.op = wqe.op,
                                           .key = wqe.rdma.remote.key,
                                           .address = wqe.rdma.remote.address,
                                           .compare = wqe.rdma.compare,
                                           .operand = wqe.rdma.operand},
                                          use(qp));
    if (!original) return refuse(qp, wqe, *peer, original.error());
    if (wqe.op == SendOp::kAtomicWrite) return done(qp, wqe);
    const CompletionStatus status = queue::scatter(
        qp, wqe.sge_list(), 0, std::as_bytes(std::span(&*original, 1)), Hold::kLocal);
    return status == CompletionStatus::kSuccess ? done(qp, wqe) : fail(qp, status);
  }

  // ---- channel semantics -------------------------------------------------------------------

  Step send(QueuePair& qp, SendWqe& wqe, Budget& budget) {
    QueuePair* peer = find_peer(qp, wqe);
    if (peer == nullptr) return no_taker(qp, wqe);
    const std::lock_guard guard(peer->recv_lock);
    if (!peer->can_receive()) return no_taker(qp, wqe);
    // A sender that fails by itself takes no buffer from others who send there.
    if (datagram_) {
      if (const auto own = own_fault(qp, wqe)) return fail(qp, *own);
    }
    // The buffer of a message in progress waits in the peer's path: if the peer is reset or fails
    // meanwhile, it is flushed there.
    auto& inbound = peer->path->partial_receive;
    if (inbound == nullptr) {
      if (offset_ != 0) return no_peer(qp, wqe);  // the peer began anew in the middle
      inbound = target::take_receive(*peer);
      if (inbound == nullptr) return receiver_not_ready(qp, wqe, *peer);
    }
    // Many may send to a datagram queue pair, and its path has room for one that is not done.
    const std::uint64_t n =
        datagram_ ? wqe.length : std::min<std::uint64_t>(wqe.length - offset_, budget.bytes);
    const Delivery delivery = copy_message(qp, wqe, *peer, *inbound, offset_, n, 0);
    if (delivery.receiver != CompletionStatus::kSuccess) {
      if (const auto own = own_fault(qp, wqe)) return fail(qp, *own);
      return refuse(qp, wqe, *peer, target::refuse_receive(*peer, inbound, delivery.receiver));
    }
    if (delivery.sender != CompletionStatus::kSuccess) return fail(qp, delivery.sender);
    offset_ += static_cast<std::uint32_t>(n);
    budget.bytes -= std::min(n, budget.bytes);
    if (offset_ < wqe.length) return Step::kMore;
    if (const auto refusal = target::deliver(*peer, inbound, message_info(qp, wqe))) {
      return refuse(qp, wqe, *peer, *refusal);
    }
    return done(qp, wqe);
  }

  Step datagram(QueuePair& qp, SendWqe& wqe) {
    // What cannot be sent must not cost the peer a buffer.
    if (const CompletionStatus status = check_gather(qp, wqe);
        status != CompletionStatus::kSuccess) {
      return fail(qp, status);
    }
    if (wqe.datagram.qpn == kMulticastQpn) return multicast(qp, wqe);
    const auto table = directory_.find(wqe.datagram.destination.gid, wqe.datagram.qpn);
    if (table == nullptr && neighbours_ != nullptr) {
      if (neighbours_->send_datagram(qp, wqe)) return done(qp, wqe);
      return wait_until(qp, qp.shared->scheduler->now() + kNeighbourRecheck_ns);
    }
    QueuePair* peer = table != nullptr ? table->find(wqe.datagram.qpn) : nullptr;
    const CompletionStatus status =
        peer != nullptr ? deliver_to(qp, wqe, *peer) : CompletionStatus::kSuccess;
    return status == CompletionStatus::kSuccess ? done(qp, wqe) : fail(qp, status);
  }

  /// To everybody who is in the group: here, its sender too, and in other processes.
  Step multicast(QueuePair& qp, SendWqe& wqe) {
    const Gid& group = wqe.datagram.destination.gid;
    if (neighbours_ != nullptr) {
      const Nanoseconds now = qp.shared->scheduler->now();
      if (waiting_since_ == 0) waiting_since_ = now;
      const auto is_here = [&](const host::GroupMember& member) {
        return directory_.find(member.address, member.some_qpn()) != nullptr;
      };
      const bool insists = now - waiting_since_ >= kMulticastPatience_ns;
      if (!neighbours_->send_multicast(qp, wqe, is_here, insists)) {
        return wait_until(qp, now + kNeighbourRecheck_ns);
      }
    }
    for (const auto& table : directory_.tables()) {
      for (const Qpn member : table->members(group)) {
        QueuePair* peer = table->find(member);
        if (peer == nullptr) continue;
        const CompletionStatus status = deliver_to(qp, wqe, *peer);
        if (status != CompletionStatus::kSuccess) return fail(qp, status);
      }
    }
    return done(qp, wqe);
  }

  /// A datagram to a queue pair of this process, published under kPeer; what became of the sender's
  /// side of it: whatever is wrong with the receiver, nothing is said.
  CompletionStatus deliver_to(QueuePair& qp, SendWqe& wqe, QueuePair& peer) {
    if (peer.service != Service::kUnreliableDatagram) return CompletionStatus::kSuccess;
    const std::lock_guard guard(peer.recv_lock);
    if (!peer.can_receive()) return CompletionStatus::kSuccess;
    queue::ReceiveWqe* const buffer = target::take_for_datagram(peer, wqe.datagram.qkey);
    if (buffer == nullptr) return CompletionStatus::kSuccess;
    Delivery delivery;
    target::deliver_datagram(peer, buffer, message_info(qp, wqe), grh_of(qp, wqe),
                             [&](const queue::ReceiveWqe& into, std::size_t at) {
                               delivery = copy_message(qp, wqe, peer, into, 0, wqe.length, at);
                               if (delivery.receiver != CompletionStatus::kSuccess)
                                 return delivery.receiver;
                               // The list failed after all, between check and copy: the buffer goes
                               // back unfilled.
                               return delivery.sender == CompletionStatus::kSuccess
                                          ? delivery.sender
                                          : CompletionStatus::kFlushed;
                             });
    return delivery.receiver == CompletionStatus::kSuccess ? delivery.sender
                                                           : CompletionStatus::kSuccess;
  }

  static wire::GrhBytes grh_of(const QueuePair& qp, const SendWqe& wqe) {
    const AddressVector& to = wqe.datagram.destination;
    network::Flow flow;
    flow.source = qp.local_gid;
    flow.destination = to.gid;
    flow.traffic_class = to.traffic_class;
    flow.hop_limit = to.hop_limit;
    flow.flow_label = to.flow_label;
    return network::make_datagram_grh(flow, wqe.length, wqe.op == SendOp::kSendImmediate);
  }

  Directory& directory_;
  Neighbours* neighbours_;                      ///< null: this process is alone
  std::shared_ptr<QueuePairTable> peer_table_;  ///< keeps the peer's memory
  QueuePair* peer_ = nullptr;
  std::uint32_t peer_epoch_ = 0;
  bool told_where_ = false;  ///< why datagrams find nobody
  // For fast_post(). The target is remembered only for a peer that serves writes, whose
  // rights change only together with its epoch.
  memory::Grant<LocalKey> source_;
  memory::Grant<RemoteKey> target_;
  std::unique_ptr<KeptDatagrams> kept_;  ///< null: none waits
};

}  // namespace

std::unique_ptr<queue::Path> make_direct_path(QueuePair& qp, Directory& directory,
                                              Neighbours* neighbours) {
  return std::unique_ptr<queue::Path>(new (std::nothrow) DirectPath(qp, directory, neighbours));
}

}  // namespace weft::path

#include "path/direct.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "memory/copy.h"
#include "memory/flight.h"
#include "memory/grant.h"
#include "network/flow.h"
#include "path/direct_copy.h"
#include "path/initiator.h"
#include "path/kept_datagrams.h"
#include "path/neighbours.h"
#include "queue/xrc_domain.h"
#include "transport/message.h"
#include "transport/ud.h"
#include "wire/icrc.h"
#include "wire/immediate.h"
#include "wire/packet.h"

namespace weft::path {
namespace {

using memory::Flight;
using memory::Hold;
using queue::Budget;
using queue::QueuePair;
using queue::SendWqe;
using transport::ReceiveOutcome;

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

  bool execute_at_once(QueuePair& qp, const SendRequest& request) override {
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
    complete_at_once(qp, request, CompletionOp::kWrite);
    return true;
  }

  void stop(QueuePair& qp) override {
    forget_progress();
    kept_.reset();
    if (qp.state.load(std::memory_order_relaxed) == QpState::kSendQueueError) return;
    transport::return_receive(qp, std::exchange(receive_, nullptr));
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
        return write(qp, wqe, budget);
      case SendOp::kRead:
        return read(qp, wqe, budget);
      case SendOp::kSend:
      case SendOp::kSendImmediate:
      case SendOp::kSendInvalidate:
        return qp.service == Service::kUnreliableDatagram ? datagram(qp, wqe)
                                                          : send(qp, wqe, budget);
      case SendOp::kWriteImmediate:
        return write(qp, wqe, budget);
      case SendOp::kCompareSwap:
      case SendOp::kFetchAdd:
        return atomic(qp, wqe);
      case SendOp::kAtomicWrite:
        return atomic_write(qp, wqe);
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

  /// The request breaks a rule of the peer's: on the wire a NAK would kill both queue pairs, while
  /// an unreliable peer would drop the message and say nothing.
  Step refuse(QueuePair& qp, SendWqe& wqe, QueuePair& peer, CompletionStatus status) {
    const bool access = status == CompletionStatus::kRemoteAccessError;
    if (access) peer.count(obs::Counter::kRefusedAccesses);
    if (!reliable_) {
      peer.count(obs::Counter::kDroppedMessages);
      return unheard(qp, wqe);
    }
    if (access) {
      peer.shared->events->on_event(peer, queue::QpEvent::kAccessError);
    } else if (status == CompletionStatus::kRemoteInvalidRequest) {
      peer.shared->events->on_event(peer, queue::QpEvent::kRequestError);
    }
    fail_queue_pair(peer);
    return fail(qp, status);
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
        peer->path != nullptr && !peer->path->takes_frames();
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
    return unheard(qp, wqe);
  }

  /// The copy of execute_at_once() for a remote key that is checked behind a fence.
  [[gnu::noinline]] bool copy_by_window(QueuePair& qp, const Sge& sge,
                                        const RemoteAddress& remote) {
    if (!source_.covers(sge.lkey, sge.address, sge.length)) return remember(qp, sge, remote);
    Flight::Slot& slot = Flight::mine();
    slot.put(Hold::kPeer, peer_);
    slot.put(Hold::kLocal, source_.entry);
    slot.put(Hold::kRemote, target_.entry);
    Flight::fence();
    const memory::KeyTable::Entry& bound = *target_.entry;
    const bool done =
        peer_->epoch.load(std::memory_order_acquire) == peer_epoch_ && source_.holds() &&
        target_.holds() && memory::inside(remote.address, sge.length, bound.base, bound.length) &&
        memory::guarded_copy(target_.at(remote.address), source_.at(sge.address), sge.length) ==
            memory::Fault::kNone;
    Flight::clear(Hold::kPeer, Hold::kLocal, Hold::kRemote);
    return done || forget_grants();
  }

  /// Finds out what execute_at_once() needs to know next time; this time the long way does it.
  [[gnu::noinline, gnu::cold]] bool remember(QueuePair& qp, const Sge& sge,
                                             const RemoteAddress& remote) {
    if (qp.extended_initiator || find_peer(qp) == nullptr) return false;
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
        auto& left = static_cast<DirectPath&>(*peer->path).receive_;
        transport::return_receive(*peer, std::exchange(left, nullptr));
      }
      if (peer->xrc_domain->select(*peer, wqe.remote_srq)) return {};
    }
    return refuse(qp, wqe, *peer, CompletionStatus::kRemoteInvalidRequest);
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

  /// The peer's memory for bytes [offset_, offset_ + n) of the element. At its start the whole
  /// range is checked, so that a request that does not fit touches nothing.
  tl::expected<memory::Place, memory::AccessError> remote_place(QueuePair& qp, const SendWqe& wqe,
                                                                QueuePair& peer, std::uint64_t n,
                                                                Access need) {
    if (!peer.shared->serves_rdma || !has(peer.attributes.access, need)) {
      return tl::unexpected(memory::AccessError::kNoRights);
    }
    memory::KeyTable& keys = *peer.shared->keys;
    const RemoteAddress& remote = wqe.rdma.remote;
    memory::RemoteAccess access{peer.pd, peer.qpn, remote.address + offset_, n, need, use(qp)};
    if (offset_ == 0 && n < wqe.length) {
      access.length = wqe.length;
      if (const auto whole = keys.check_remote(remote.key, access); !whole) return whole;
      access.length = n;
    }
    return keys.check_remote(remote.key, access);
  }

  Step write(QueuePair& qp, SendWqe& wqe, Budget& budget) {
    QueuePair* peer = find_peer(qp);
    if (peer == nullptr) return no_peer(qp, wqe);
    const std::uint64_t n = std::min<std::uint64_t>(wqe.length - offset_, budget.bytes);
    if (n > 0) {
      const auto to = remote_place(qp, wqe, *peer, n, Access::kRemoteWrite);
      if (!to) return refuse(qp, wqe, *peer, CompletionStatus::kRemoteAccessError);
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
    return refuse(qp, wqe, peer, status);
  }

  /// The immediate of a write whose data has landed.
  Step notify(QueuePair& qp, SendWqe& wqe, QueuePair& peer) {
    const std::lock_guard guard(peer.recv_lock);
    if (!peer.can_receive()) return no_peer(qp, wqe);
    queue::ReceiveWqe* receive = transport::take_receive(peer);
    if (receive == nullptr) return receiver_not_ready(qp, wqe, peer);
    ReceiveOutcome outcome;
    outcome.op = CompletionOp::kReceiveWriteImmediate;
    outcome.byte_count = wqe.length;
    outcome.solicited = has(wqe.flags, SendFlags::kSolicited);
    outcome.has_immediate = true;
    outcome.immediate = wqe.immediate;
    outcome.source_qp = qp.qpn;
    transport::complete_receive(peer, receive, outcome);
    return done(qp, wqe);
  }

  Step read(QueuePair& qp, SendWqe& wqe, Budget& budget) {
    QueuePair* peer = find_peer(qp);
    if (peer == nullptr) return no_peer(qp, wqe);
    const std::uint64_t n = std::min<std::uint64_t>(wqe.length - offset_, budget.bytes);
    if (n > 0) {
      const auto from = remote_place(qp, wqe, *peer, n, Access::kRemoteRead);
      if (!from) return refuse(qp, wqe, *peer, CompletionStatus::kRemoteAccessError);
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
    QueuePair* peer = find_peer(qp);
    if (peer == nullptr) return no_peer(qp, wqe);
    if (wqe.rdma.remote.address % 8 != 0) {
      return refuse(qp, wqe, *peer, CompletionStatus::kRemoteInvalidRequest);
    }
    const auto at = remote_place(qp, wqe, *peer, 8, Access::kRemoteAtomic);
    if (!at) return refuse(qp, wqe, *peer, CompletionStatus::kRemoteAccessError);
    const auto original = wqe.op == SendOp::kCompareSwap
                              ? memory::compare_swap(*at, wqe.rdma.compare, wqe.rdma.operand)
                              : memory::fetch_add(*at, wqe.rdma.operand);
    Flight::clear(Hold::kRemote);
    if (!original) return copy_failed(qp, wqe, *peer, CompletionStatus::kRemoteAccessError);
    const auto bytes = std::as_bytes(std::span(&*original, 1));
    const CompletionStatus status = scatter(qp, wqe.sge_list(), 0, bytes, Hold::kLocal);
    return status == CompletionStatus::kSuccess ? done(qp, wqe) : fail(qp, status);
  }

  Step atomic_write(QueuePair& qp, SendWqe& wqe) {
    QueuePair* peer = find_peer(qp);
    if (peer == nullptr) return no_peer(qp, wqe);
    if (wqe.rdma.remote.address % 8 != 0) {
      return refuse(qp, wqe, *peer, CompletionStatus::kRemoteInvalidRequest);
    }
    const auto at = remote_place(qp, wqe, *peer, 8, Access::kRemoteWrite);
    if (!at) return refuse(qp, wqe, *peer, CompletionStatus::kRemoteAccessError);
    const memory::Fault fault = memory::store_word(*at, wqe.rdma.operand);
    Flight::clear(Hold::kRemote);
    if (fault == memory::Fault::kNone) return done(qp, wqe);
    return copy_failed(qp, wqe, *peer, CompletionStatus::kRemoteAccessError);
  }

  // ---- channel semantics -------------------------------------------------------------------

  Step send(QueuePair& qp, SendWqe& wqe, Budget& budget) {
    QueuePair* peer = find_peer(qp);
    if (peer == nullptr) return no_peer(qp, wqe);
    const std::lock_guard guard(peer->recv_lock);
    if (!peer->can_receive()) return no_peer(qp, wqe);
    // The buffer of a message in progress waits in the peer's path: if the peer is reset or fails
    // meanwhile, it is flushed there.
    auto& inbound = static_cast<DirectPath&>(*peer->path).receive_;
    if (inbound == nullptr) {
      if (offset_ != 0) return no_peer(qp, wqe);  // the peer began anew in the middle
      inbound = transport::take_receive(*peer);
      if (inbound == nullptr) return receiver_not_ready(qp, wqe, *peer);
    }
    const std::uint64_t n = std::min<std::uint64_t>(wqe.length - offset_, budget.bytes);
    const Delivery delivery = copy_message(qp, wqe, *peer, *inbound, offset_, n, 0);
    if (delivery.receiver != CompletionStatus::kSuccess) {
      transport::complete_receive(*peer, std::exchange(inbound, nullptr),
                                  {.status = delivery.receiver});
      return refuse(qp, wqe, *peer, delivery.sender);
    }
    if (delivery.sender != CompletionStatus::kSuccess) return fail(qp, delivery.sender);
    offset_ += static_cast<std::uint32_t>(n);
    budget.bytes -= n;
    if (offset_ < wqe.length) return Step::kMore;
    return deliver(qp, wqe, *peer, inbound);
  }

  Step deliver(QueuePair& qp, SendWqe& wqe, QueuePair& peer, queue::ReceiveWqe*& inbound) {
    ReceiveOutcome outcome;
    outcome.byte_count = wqe.length;
    outcome.solicited = has(wqe.flags, SendFlags::kSolicited);
    outcome.source_qp = qp.qpn;
    if (wqe.op == SendOp::kSendImmediate) {
      outcome.has_immediate = true;
      outcome.immediate = wqe.immediate;
    } else if (wqe.op == SendOp::kSendInvalidate) {
      const RemoteKey key(wqe.immediate);
      if (!peer.shared->keys->invalidate(key, peer.pd, peer.qpn)) {
        transport::complete_receive(peer, std::exchange(inbound, nullptr),
                                    {.status = CompletionStatus::kRemoteInvalidRequest});
        return refuse(qp, wqe, peer, CompletionStatus::kRemoteAccessError);
      }
      outcome.has_invalidate = true;
      outcome.invalidated_key = key;
    }
    transport::complete_receive(peer, std::exchange(inbound, nullptr), outcome);
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
        peer != nullptr ? hand_over(qp, wqe, *peer) : CompletionStatus::kSuccess;
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
        const CompletionStatus status = hand_over(qp, wqe, *peer);
        if (status != CompletionStatus::kSuccess) return fail(qp, status);
      }
    }
    return done(qp, wqe);
  }

  /// A datagram to a queue pair of this process, published under kPeer; what became of the sender's
  /// side of it: whatever is wrong with the receiver, nothing is said.
  CompletionStatus hand_over(QueuePair& qp, SendWqe& wqe, QueuePair& peer) {
    if (peer.service != Service::kUnreliableDatagram) return CompletionStatus::kSuccess;
    const std::lock_guard guard(peer.recv_lock);
    if (!peer.can_receive()) return CompletionStatus::kSuccess;
    if (wqe.datagram.qkey != peer.attributes.qkey) {
      peer.count(obs::Counter::kBadQKey);
      return CompletionStatus::kSuccess;
    }
    queue::ReceiveWqe* receive = transport::take_receive(peer);
    if (receive == nullptr) {
      peer.count(obs::Counter::kDroppedMessages);
      return CompletionStatus::kSuccess;
    }
    Delivery delivery;
    delivery.receiver = deliver_grh(qp, wqe, peer, *receive);
    if (delivery.receiver == CompletionStatus::kSuccess) {
      delivery = copy_message(qp, wqe, peer, *receive, 0, wqe.length, transport::kGrhBytes);
    }
    ReceiveOutcome outcome;
    outcome.status = delivery.receiver;
    outcome.byte_count = static_cast<std::uint32_t>(wqe.length + transport::kGrhBytes);
    outcome.source_qp = qp.qpn;
    outcome.solicited = has(wqe.flags, SendFlags::kSolicited);
    outcome.has_grh = true;
    outcome.has_immediate = wqe.op == SendOp::kSendImmediate;
    outcome.immediate = wqe.immediate;
    if (delivery.receiver != CompletionStatus::kSuccess) delivery.sender = {};
    // The list failed after all, between check and copy: the buffer goes back unfilled.
    if (delivery.sender != CompletionStatus::kSuccess) outcome.status = CompletionStatus::kFlushed;
    transport::complete_receive(peer, receive, outcome);
    return delivery.sender;
  }

  static CompletionStatus deliver_grh(QueuePair& qp, const SendWqe& wqe, QueuePair& peer,
                                      const queue::ReceiveWqe& receive) {
    const AddressVector& to = wqe.datagram.destination;
    network::Flow flow;
    flow.source = qp.local_gid;
    flow.destination = to.gid;
    flow.traffic_class = to.traffic_class;
    flow.hop_limit = to.hop_limit;
    flow.flow_label = to.flow_label;
    const std::size_t headers = wire::Bth::kSize + wire::Deth::kSize +
                                (wqe.op == SendOp::kSendImmediate ? wire::Immediate::kSize : 0);
    const transport::Grh grh =
        network::make_grh(flow, headers + wqe.length + wire::pad_for(wqe.length) + wire::kIcrcSize);
    return scatter(peer, receive.sges(), 0, grh, Hold::kScatter);
  }

  Directory& directory_;
  Neighbours* neighbours_;                      ///< null: this process is alone
  std::shared_ptr<QueuePairTable> peer_table_;  ///< keeps the peer's memory
  QueuePair* peer_ = nullptr;
  std::uint32_t peer_epoch_ = 0;
  // For execute_at_once(). The target is remembered only for a peer that serves writes, whose
  // rights change only together with its epoch.
  memory::Grant<LocalKey> source_;
  memory::Grant<RemoteKey> target_;
  queue::ReceiveWqe* receive_ = nullptr;  ///< of a message that the peer is sending; recv_lock
  std::unique_ptr<KeptDatagrams> kept_;   ///< null: none waits
};

}  // namespace

std::unique_ptr<queue::Path> make_direct_path(QueuePair& qp, Directory& directory,
                                              Neighbours* neighbours) {
  return std::unique_ptr<queue::Path>(new (std::nothrow) DirectPath(qp, directory, neighbours));
}

}  // namespace weft::path

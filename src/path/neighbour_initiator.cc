#include "path/neighbour_initiator.h"

#include <mutex>
#include <new>
#include <utility>

#include "base/fast_paths.h"
#include "path/neighbour_copy.h"

namespace weft::path {
namespace {

constexpr Nanoseconds kWelcomeRecheck_ns = 20'000;
/// A message of this length lies in one line, with its record.
constexpr std::uint32_t kLineBytes = host::kLine - host::kRecordPayloadAt;
/// From the end of the peer's process to that of the requests that it has not answered: long for a
/// program that is about to end too, and short for a person who waits.
constexpr Nanoseconds kDeathPause_ns = 60'000'000;

}  // namespace

void NeighbourInitiator::advance(QueuePair& qp, queue::SendGuard guard, Budget budget) {
  if (fails_at_ != 0) [[unlikely]] {
    if (qp.shared->scheduler->now() >= fails_at_) {
      on_peer_dead(qp);
    } else {
      qp.shared->scheduler->run_at(qp, fails_at_);
    }
  }
  if (qp.state.load(std::memory_order_relaxed) != QpState::kSendQueueDrained) {
    told_drained_ = false;
  }
  full_ = false;
  while (cursor_ != qp.sq.tail() && qp.can_send()) {
    if (offset_ == 0 && !started_ &&
        qp.state.load(std::memory_order_relaxed) == QpState::kSendQueueDrained) {
      break;
    }
    if (budget.bytes == 0 || budget.requests-- == 0) {
      qp.shared->scheduler->run_soon(qp);
      break;
    }
    if (pauses(qp)) break;
    if (execute(qp, qp.sq.at(cursor_), budget) == Step::kWait) break;
  }
  if (alone(qp) && (qp.sq.empty() || (offset_ == 0 && !started_))) tell_drained(qp);
  outbox_.set_waits(cursor_ != qp.sq.tail() && (full_ || !alone(qp)));
  outbox_.leave();
  const bool ring = std::exchange(published_, false);
  guard.unlock();
  if (ring) link_->ring_doorbell();
}

queue::PeerView NeighbourInitiator::look_at_peer(QueuePair& qp, RemoteKey key) {
  queue::PeerView view;
  if (!link_->usable() || !link_->process.alive()) {
    view.peer = queue::PeerView::Peer::kDead;
    return view;
  }
  const host::PublicQueuePair* peer = link_->tables.queue_pair(qp.attributes.remote_qpn);
  view.peer = peer == nullptr ? queue::PeerView::Peer::kNobody
              : peer->ready() ? queue::PeerView::Peer::kReady
                              : queue::PeerView::Peer::kNotReady;
  if (peer == nullptr) return view;
  if (link_->owner_checks) return view;  // its keys are shown to nobody
  view.peer_allows = static_cast<Access>(peer->access);
  std::uint32_t slot = 0;
  const host::PublicKey* entry = link_->tables.key(key, &slot);
  show_key(view, entry, key, PdId(peer->pd));
  return view;
}

bool NeighbourInitiator::fast_post(QueuePair& qp, const SendRequest& request) {
  if (is_small(SendOp::kWrite, request)) return qp.sq.empty() && fast_write(qp, request);
  if (is_small(SendOp::kRead, request)) {
    return reliable_ && qp.sq.empty() && fast_read(qp, request);
  }
  return request.op == SendOp::kSend && request.sges.size() == 1 &&
         request.sges.front().length <= kLineBytes && cursor_ == qp.sq.tail() &&
         (!has(request.flags, SendFlags::kFence) || alone(qp)) && fast_send(qp, request);
}

void NeighbourInitiator::stop(QueuePair& qp) {
  forget_progress();
  next_run();
  cursor_ = qp.sq.tail();
  outbox_.forget(qp);
  if (qp.state.load(std::memory_order_relaxed) == QpState::kSendQueueError) return;
  target::return_receive(qp, std::exchange(partial_receive, nullptr));
}

void NeighbourInitiator::on_link_lost(QueuePair& qp, const host::Outbound& link) {
  if (&link != link_.get()) return;
  const std::lock_guard guard(qp.send_lock);
  if (qp.path.get() != this || !qp.can_send()) return;
  peer_ = {};
  fast_path_.forget();
  if (qp.sq.empty()) return;  // as on a wire: an idle one notices nothing
  fails_at_ = qp.shared->scheduler->now() + kDeathPause_ns;
  qp.shared->scheduler->run_at(qp, fails_at_);
}

/// What was under way gets no answer any more. What is behind it finds out for itself that nobody
/// is there.
void NeighbourInitiator::on_peer_dead(QueuePair& qp) {
  fails_at_ = 0;
  std::uint32_t under_way = cursor_ - qp.sq.head();
  if (under_way == 0) return;
  next_run();
  cursor_ = qp.sq.head();
  if (reliable_) {
    static_cast<void>(give_up(qp, CompletionStatus::kRetryExceeded));
    return;
  }
  for (; under_way > 0 && qp.can_send(); --under_way) static_cast<void>(drop(qp, qp.sq.front()));
}

Step NeighbourInitiator::execute(QueuePair& qp, SendWqe& wqe, Budget& budget) {
  if (transport::is_local(wqe.op)) return local(qp, wqe);
  // What the answers before it bring home may be what it sends.
  if (has(wqe.flags, SendFlags::kFence) && !alone(qp)) [[unlikely]]
    return Step::kWait;
  if (!find_peer(qp)) [[unlikely]]
    return peer_missing(qp, wqe);
  if (qp.extended_initiator && !choose(qp, wqe)) [[unlikely]]
    return Step::kWait;
  switch (wqe.op) {
    case SendOp::kWrite:
    case SendOp::kWriteImmediate:
      return write(qp, wqe, budget);
    case SendOp::kRead:
      return read(qp, wqe, budget);
    case SendOp::kCompareSwap:
    case SendOp::kFetchAdd:
    case SendOp::kAtomicWrite:
      return atomic(qp, wqe);
    default:
      return send(qp, wqe, budget);
  }
}

bool NeighbourInitiator::choose(QueuePair& qp, const SendWqe& wqe) {
  if (chosen_ == wqe.remote_srq) return true;
  const bool sent =
      put(qp, Ask::kChoose, 0, Ends::kNot, [&](host::RecordHeader& header, std::byte*) {
        header.immediate = wqe.remote_srq.value;
        return true;
      });
  if (sent) chosen_ = wqe.remote_srq;
  return sent;
}

Step NeighbourInitiator::local(QueuePair& qp, SendWqe& wqe) {
  if (!alone(qp)) return Step::kWait;
  outbox_.leave();
  if (wqe.op == SendOp::kDelay) {
    const Step step = delay(qp, wqe);
    if (step == Step::kNext) ++cursor_;
    return step;
  }
  const CompletionStatus status = transport::run_local(qp, wqe);
  return status == CompletionStatus::kSuccess ? finish(qp, wqe) : give_up(qp, status);
}

Step NeighbourInitiator::give_up(QueuePair& qp, CompletionStatus status) {
  if (!alone(qp)) return Step::kWait;
  next_run();
  ++cursor_;
  return fail(qp, status);
}

bool NeighbourInitiator::fast_write(QueuePair& qp, const SendRequest& request) {
  if (!fast_path_.knows_write(qp, request)) [[unlikely]] {
    if (!fast_path_.worth_asking(request)) return false;
    remember(qp, request);
    if (!fast_path_.knows_write(qp, request)) return false;
  }
  if (!fast_path_.write(*link_, peer_, request)) [[unlikely]]
    return false;
  fast_complete(qp, request, CompletionOp::kWrite);
  return true;
}

bool NeighbourInitiator::fast_read(QueuePair& qp, const SendRequest& request) {
  if (!fast_path_.knows_read(request)) [[unlikely]] {
    if (!fast_path_.worth_asking(request)) return false;
    remember(qp, request);
    if (!fast_path_.knows_read(request)) return false;
  }
  // What a read cannot be: the send queue says why.
  if (has(request.flags, SendFlags::kInline) || !fast_path_.read(*link_, peer_, request))
      [[unlikely]]
    return false;
  fast_complete(qp, request, CompletionOp::kRead);
  return true;
}

void NeighbourInitiator::remember(QueuePair& qp, const SendRequest& request) {
  if (base::fast_paths.on() && !qp.extended_initiator && find_peer(qp)) {
    fast_path_.remember(*link_, qp, peer_, request);
  }
  outbox_.leave();
}

bool NeighbourInitiator::fast_send(QueuePair& qp, const SendRequest& request) {
  if (!base::fast_paths.on()) return false;
  if (!fast_path_.knows_source(qp, request)) {
    remember(qp, request);
    return false;
  }
  SendWqe* wqe = qp.sq.reserve();
  if (wqe == nullptr || qp.sq.max_sge() == 0 || not_before_ != 0 || !peer_.holds() ||
      link_->dead.load(std::memory_order_relaxed) || link_->wants_wake() || qp.extended_initiator)
      [[unlikely]] {
    return false;
  }
  host::Record* record = outbox_.reserve(qp, kLineBytes);
  if (record == nullptr || !fast_path_.gather(request, record->payload)) [[unlikely]] {
    outbox_.leave();
    return false;
  }
  const Sge& sge = request.sges.front();
  host::RecordHeader header = outbox_.header_for(qp, Ask::kSend, sge.length);
  header.flags |= kFirstPart | kLastPart;
  if (has(request.flags, SendFlags::kSolicited)) header.flags |= kSolicits;
  header.length = sge.length;
  const bool signaled = qp.signal_all || has(request.flags, SendFlags::kSignaled);
  outbox_.publish(header, {&qp, cursor_, true, signaled});
  outbox_.leave();
  link_->ring_doorbell();  // if it fell asleep meanwhile

  wqe->wr_id = request.wr_id;
  wqe->op = SendOp::kSend;
  wqe->flags = signaled ? request.flags | SendFlags::kSignaled : request.flags;
  wqe->finished = false;
  wqe->started = false;
  wqe->status = CompletionStatus::kSuccess;
  wqe->length = sge.length;
  wqe->immediate = 0;
  // In case that it has to be sent again.
  if (has(request.flags, SendFlags::kInline)) {
    wqe->num_sge = 0;
    fast_path_.gather(request, wqe->inline_bytes());
  } else {
    wqe->num_sge = 1;
    *wqe->sges() = sge;
  }
  qp.sq.commit();
  ++cursor_;
  return true;
}

bool NeighbourInitiator::look_up_peer(QueuePair& qp) {
  outbox_.leave();
  peer_ = {};
  if (!link_->usable()) link_->receive(0);
  if (!link_->alive()) return false;
  const host::PublicQueuePair* entry = link_->tables.queue_pair(qp.attributes.remote_qpn);
  if (entry == nullptr) return false;
  const std::uint64_t word = entry->word.load(std::memory_order_acquire);
  const bool ours = (word & 1) != 0 && entry->service == queue::wanted_service(qp) &&
                    entry->remote_qpn == qp.qpn.value &&
                    entry->remote_gid == std::hash<Gid>()(qp.local_gid);
  if (!ours) return false;
  peer_.entry = entry;
  peer_.word = word;
  peer_.qpn = qp.attributes.remote_qpn;
  peer_.flight =
      host::flight_word(link_->tables.tag(), true, host::PublicTables::flight_number(peer_.qpn));
  peer_.pd = PdId(entry->pd);
  peer_.access = static_cast<Access>(entry->access);
  fast_path_.forget();
  return true;
}

Step NeighbourInitiator::peer_missing(QueuePair& qp, SendWqe& wqe) {
  if (!alone(qp)) return Step::kWait;
  if (link_->usable() ? !link_->process.alive() : link_->dead.load(std::memory_order_acquire)) {
    return reliable_ ? give_up(qp, CompletionStatus::kRetryExceeded) : drop(qp, wqe);
  }
  const bool called = !link_->usable();
  const Step step = no_peer(qp, wqe);
  if (step == Step::kNext) ++cursor_;
  // Its welcome is on the way: look often, but not for longer than for any other peer.
  return step == Step::kWait && called
             ? wait_until(qp, qp.shared->scheduler->now() + kWelcomeRecheck_ns)
             : step;
}

Step NeighbourInitiator::refuse(QueuePair& qp, SendWqe& wqe, Complaint complaint) {
  if (const auto own = own_fault(qp, wqe)) return give_up(qp, *own);
  if (reserve(qp, 0) == nullptr) return Step::kWait;
  host::RecordHeader header = outbox_.header_for(qp, Ask::kComplain, 0);
  header.immediate = static_cast<std::uint32_t>(complaint);
  outbox_.publish_unnumbered(header);
  published_ = true;
  return reliable_ ? give_up(qp, CompletionStatus::kRemoteAccessError) : drop(qp, wqe);
}

std::unique_ptr<queue::Path> make_neighbour_path(queue::QueuePair& qp,
                                                 std::shared_ptr<host::Outbound> link,
                                                 host::ProcessPage& page) {
  return std::unique_ptr<queue::Path>(new (std::nothrow)
                                          NeighbourInitiator(qp, std::move(link), page));
}

}  // namespace weft::path

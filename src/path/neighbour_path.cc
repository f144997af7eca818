#include "path/neighbour_path.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "memory/copy.h"
#include "path/direct_copy.h"
#include "path/neighbour_copy.h"
#include "path/neighbour_outbox.h"
#include "path/neighbour_short_way.h"
#include "path/neighbour_target.h"
#include "transport/message.h"

namespace weft::path {
namespace {

using host::FlightUse;
using memory::Hold;
using queue::Budget;
using queue::QueuePair;
using queue::SendWqe;

/// A write behind work in the ring goes through the ring too, up to here; a longer one waits.
constexpr std::uint32_t kRingWriteBytes = 4096;
constexpr Nanoseconds kWelcomeRecheck_ns = 20'000;
/// A message of this length lies in one line, with its record.
constexpr std::uint32_t kLineBytes = host::kLine - host::kRecordPayloadAt;
/// From the peer's end to the queue pair's: long for a program that is about to end too, and short
/// for a person who waits.
constexpr Nanoseconds kMourning_ns = 60'000'000;
/// Up to this size a record does not let others wait for the ring.
constexpr std::uint32_t kShortBytes = 1024;
/// Sends up to this length that are posted together travel together: a cache line takes several.
constexpr std::uint32_t kShortSendBytes = 64;
constexpr std::uint32_t kMostShortSends = 64;

CompletionStatus status_of(Answer answer) {
  switch (answer) {
    case Answer::kAccess:
      return CompletionStatus::kRemoteAccessError;
    case Answer::kOperation:
      return CompletionStatus::kRemoteOperationError;
    default:
      return CompletionStatus::kRemoteInvalidRequest;
  }
}

/// Whether an element ends with a record, and whether somebody waits for that.
enum class Ends : std::uint8_t { kNot, kQuietly, kAwaited };

Ends how_it_ends(const SendWqe& wqe) {
  return wqe.signaled() || transport::is_read(wqe.op) ? Ends::kAwaited : Ends::kQuietly;
}

class NeighbourPathOfProcess final : public NeighbourPath {
 public:
  NeighbourPathOfProcess(const QueuePair& qp, std::shared_ptr<host::Outbound> link,
                         host::ProcessPage& page)
      : NeighbourPath(qp, std::move(link)),
        page_(page),
        outbox_(*link_),
        short_way_(*link_, page) {}

  void advance(QueuePair& qp, queue::SendGuard guard, Budget budget) override {
    if (fails_at_ != 0) [[unlikely]] {
      if (qp.shared->scheduler->now() >= fails_at_) {
        guard.unlock();
        return on_target_dead(qp);
      }
      qp.shared->scheduler->run_at(qp, fails_at_);
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
    const bool knock = std::exchange(published_, false);
    guard.unlock();
    if (knock) link_->ring_doorbell();
  }

  queue::PeerView look_at_peer(QueuePair& qp, RemoteKey key) override {
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
    view.peer_allows = static_cast<Access>(peer->access);
    std::uint32_t slot = 0;
    const host::PublicKey* entry = link_->tables.key(key, &slot);
    if (entry == nullptr) {
      view.key = queue::PeerView::Key::kNone;
      return view;
    }
    view.key = key_state(entry->control.load(std::memory_order_acquire), key);
    view.same_domain = entry->pd == peer->pd;
    view.base = entry->base;
    view.length = entry->length;
    view.rights = static_cast<Access>(entry->access);
    return view;
  }

  bool execute_at_once(QueuePair& qp, const SendRequest& request) override {
    if (is_small_write(request)) return qp.sq.empty() && write_at_once(qp, request);
    return request.op == SendOp::kSend && request.sges.size() == 1 &&
           request.sges.front().length <= kLineBytes && cursor_ == qp.sq.tail() &&
           (!has(request.flags, SendFlags::kFence) || alone(qp)) && send_at_once(qp, request);
  }

  void start_sending(QueuePair& qp) override {
    Initiator::start_sending(qp);
    cursor_ = qp.sq.head();
  }

  void stop(QueuePair& qp) override {
    forget_progress();
    next_run();
    cursor_ = qp.sq.tail();
    outbox_.forget(qp);
    if (qp.state.load(std::memory_order_relaxed) == QpState::kSendQueueError) return;
    transport::return_receive(qp, std::exchange(inbox.receive, nullptr));
  }

  void on_answers(QueuePair& qp, queue::SendGuard guard, std::span<RingAnswer> answers) override {
    for (RingAnswer& answer : answers) {
      if (!qp.can_send()) break;
      if (!outbox_.knows(answer.cookie)) continue;
      const std::uint32_t sequence = answered_;
      answered_ += answer.messages;
      const std::uint32_t head = qp.sq.head();
      if (qp.sq.empty() || outbox_.index_of(answer.cookie, head) != head) continue;
      on_answer(qp, sequence, answer);
    }
    advance(qp, std::move(guard), {});
  }

  void mourn(QueuePair& qp) override {
    const std::lock_guard guard(qp.send_lock);
    if (qp.path.get() != this || !qp.can_receive()) return;
    fails_at_ = qp.shared->scheduler->now() + kMourning_ns;
    qp.shared->scheduler->run_at(qp, fails_at_);
  }

  void on_target_dead(QueuePair& qp) override {
    {
      const std::lock_guard guard(qp.send_lock);
      if (qp.path.get() != this || !qp.can_receive()) return;
      if (!qp.sq.empty() && qp.can_send()) {
        complete_front(qp, CompletionStatus::kRetryExceeded, 0);
        next_run();
        cursor_ = qp.sq.head();
      }
      fail_queue_pair(qp);
    }
    qp.shared->events->on_event(qp, queue::QpEvent::kFatal);
  }

 private:
  // ---- the element at the cursor -----------------------------------------------------------

  /// Nothing is on its way: the element at the cursor is the front one.
  bool alone(QueuePair& qp) const { return cursor_ == qp.sq.head(); }

  Step execute(QueuePair& qp, SendWqe& wqe, Budget& budget) {
    if (transport::is_local(wqe.op)) return local(qp, wqe);
    // What the answers before it bring home may be what it sends.
    if (has(wqe.flags, SendFlags::kFence) && !alone(qp)) [[unlikely]]
      return Step::kWait;
    if (!find_peer(qp)) [[unlikely]]
      return nobody(qp, wqe);
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
        return atomic(qp, wqe);
      default:
        return send(qp, wqe, budget);
    }
  }

  /// Tells the peer which of its receive queues the element is for. False: the ring is full.
  [[gnu::noinline]] bool choose(QueuePair& qp, const SendWqe& wqe) {
    if (chosen_ == wqe.remote_srq) return true;
    const bool sent =
        put(qp, Ask::kChoose, 0, Ends::kNot, [&](host::RecordHeader& header, std::byte*) {
          header.immediate = wqe.remote_srq.value;
          return true;
        });
    if (sent) chosen_ = wqe.remote_srq;
    return sent;
  }

  Step local(QueuePair& qp, SendWqe& wqe) {
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

  Step finish(QueuePair& qp, const SendWqe& wqe) {
    ++cursor_;
    return done(qp, wqe);
  }
  /// The element fails, once everything before it has ended.
  Step give_up(QueuePair& qp, CompletionStatus status) {
    if (!alone(qp)) return Step::kWait;
    next_run();
    ++cursor_;
    return fail(qp, status);
  }

  // ---- the short way -----------------------------------------------------------------------

  bool write_at_once(QueuePair& qp, const SendRequest& request) {
    if (!short_way_.knows_source(qp, request) || !short_way_.knows_target(request)) [[unlikely]]
      return short_way_.worth_asking(request) && remember(qp, request);
    if (!short_way_.write(peer_, request)) [[unlikely]]
      return false;
    complete_at_once(qp, request, request.sges.front().length);
    return true;
  }

  /// Finds out what execute_at_once() needs to know next time; this time the long way does it.
  [[gnu::noinline, gnu::cold]] bool remember(QueuePair& qp, const SendRequest& request) {
    if (!qp.extended_initiator && find_peer(qp)) short_way_.remember(qp, peer_, request);
    outbox_.leave();
    return false;
  }

  /// A message that fits into one line of the ring, behind nothing that is not in the ring. The
  /// record goes out first, the rest is done while it travels. A peer that sleeps is woken the long
  /// way.
  bool send_at_once(QueuePair& qp, const SendRequest& request) {
    if (!short_way_.knows_source(qp, request)) return remember(qp, request);
    SendWqe* wqe = qp.sq.reserve();
    if (wqe == nullptr || qp.sq.max_sge() == 0 || not_before_ != 0 || !peer_.holds() ||
        link_->dead.load(std::memory_order_relaxed) || link_->process.sleeping() ||
        qp.extended_initiator) [[unlikely]] {
      return false;
    }
    host::Record* record = outbox_.reserve(qp, kLineBytes);
    if (record == nullptr || !short_way_.read(request, record->payload)) [[unlikely]] {
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
      short_way_.read(request, wqe->inline_bytes());
    } else {
      wqe->num_sge = 1;
      *wqe->sges() = sge;
    }
    qp.sq.commit();
    ++cursor_;
    return true;
  }

  // ---- the peer ----------------------------------------------------------------------------

  bool find_peer(QueuePair& qp) {
    if (peer_.holds() && !link_->dead.load(std::memory_order_relaxed)) [[likely]]
      return true;
    return look_up_peer(qp);
  }

  [[gnu::noinline]] bool look_up_peer(QueuePair& qp) {
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
    peer_.pd = entry->pd;
    peer_.access = entry->access;
    short_way_.forget();
    return true;
  }

  Step nobody(QueuePair& qp, SendWqe& wqe) {
    if (!alone(qp)) return Step::kWait;
    if (link_->usable() ? !link_->process.alive() : link_->dead.load(std::memory_order_acquire)) {
      if (!reliable_) return lost(qp, wqe);
      // Whoever buries the link finds this queue pair in error, and passes it by.
      qp.shared->events->on_event(qp, queue::QpEvent::kFatal);
      return give_up(qp, CompletionStatus::kRetryExceeded);
    }
    const bool called = !link_->usable();
    const Step step = no_peer(qp, wqe);
    if (step == Step::kNext) ++cursor_;
    // Its welcome is on the way: look often, but not for longer than for any other peer.
    return step == Step::kWait && called
               ? wait_until(qp, qp.shared->scheduler->now() + kWelcomeRecheck_ns)
               : step;
  }

  Step lost(QueuePair& qp, SendWqe& wqe) {
    const Step step = unheard(qp, wqe);
    ++cursor_;
    return step;
  }

  /// The request breaks a rule of the peer's, which learns of it through the ring.
  Step refuse(QueuePair& qp, SendWqe& wqe, CompletionStatus status) {
    if (reserve(qp, 0) == nullptr) return Step::kWait;
    host::RecordHeader header = outbox_.header_for(qp, Ask::kComplain, 0);
    header.immediate = static_cast<std::uint32_t>(status);
    outbox_.publish_unnumbered(header);
    published_ = true;
    return reliable_ ? give_up(qp, status) : lost(qp, wqe);
  }

  // ---- the ring ----------------------------------------------------------------------------

  /// Whatever is in the ring means nothing to us any more; the next record has this number.
  void next_run(std::uint32_t sequence) {
    outbox_.begin_again(sequence);
    answered_ = sequence;
    answered_offset_ = 0;
    parts_in_ring_ = false;
    chosen_.reset();
  }
  void next_run() { next_run(outbox_.next_sequence()); }

  host::Record* reserve(QueuePair& qp, std::uint32_t bytes) {
    host::Record* record = outbox_.reserve(qp, bytes);
    full_ = record == nullptr;
    return record;
  }

  /// A record of the element at the cursor. fill(header, payload) completes it; false from there,
  /// or a full ring: nothing was sent.
  template <class Fill>
  bool put(QueuePair& qp, Ask ask, std::uint32_t bytes, Ends ends, Fill fill) {
    host::Record* record = reserve(qp, bytes);
    if (record == nullptr) [[unlikely]]
      return false;
    host::RecordHeader header = outbox_.header_for(qp, ask, bytes);
    if (!fill(header, record->payload)) return false;
    if (ask == Ask::kChoose) {
      outbox_.publish_unnumbered(header);
    } else {
      outbox_.publish(header, {&qp, cursor_, ends != Ends::kNot, ends == Ends::kAwaited});
    }
    published_ = true;
    if (bytes > kShortBytes) outbox_.leave();
    return true;
  }

  /// One part of the element's message as a record behind `ahead` bytes of another header.
  template <class Fill>
  Step put_part(QueuePair& qp, SendWqe& wqe, Budget& budget, Ask ask, std::uint32_t ahead,
                Fill fill) {
    const std::uint32_t room = outbox_.room() - ahead;
    const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(
        {room, wqe.length - offset_, std::max<std::uint64_t>(budget.bytes, 1)}));
    const bool last = offset_ + n == wqe.length;
    bool readable = true;
    const Ends ends = last ? how_it_ends(wqe) : Ends::kNot;
    const bool sent = put(qp, ask, ahead + n, ends, [&](host::RecordHeader& header, std::byte* at) {
      header.flags |=
          static_cast<std::uint8_t>((offset_ == 0 ? kFirstPart : 0) | (last ? kLastPart : 0));
      header.length = wqe.length;
      fill(header, at, last);
      readable = ask == Ask::kRead ||
                 gather(qp, wqe, offset_, {at + ahead, n}) == CompletionStatus::kSuccess;
      return readable;
    });
    if (!readable) return give_up(qp, CompletionStatus::kLocalProtectionError);
    if (!sent) return Step::kWait;
    budget.bytes -= std::min<std::uint64_t>(n, budget.bytes);
    offset_ += n;
    parts_in_ring_ = !last;
    return last ? under_way() : Step::kMore;
  }

  Step under_way() {
    offset_ = 0;
    started_ = false;
    ++cursor_;
    return Step::kNext;
  }

  static void mark(const SendWqe& wqe, host::RecordHeader& header) {
    header.immediate = wqe.immediate;
    if (has(wqe.flags, SendFlags::kSolicited)) header.flags |= kSolicits;
    if (wqe.op == SendOp::kSendImmediate || wqe.op == SendOp::kWriteImmediate) {
      header.flags |= kHasImmediate;
    }
    if (wqe.op == SendOp::kSendInvalidate) header.flags |= kInvalidates;
  }

  Step send(QueuePair& qp, SendWqe& wqe, Budget& budget) {
    if (offset_ == 0 && qp.sq.tail() - cursor_ > 1 && send_several(qp, budget)) return Step::kNext;
    return put_part(qp, wqe, budget, Ask::kSend, 0,
                    [&](host::RecordHeader& header, std::byte*, bool last) {
                      if (last) mark(wqe, header);
                    });
  }

  /// How many of the elements from the cursor on are short sends, and the bytes of all of them.
  std::uint32_t count_short_sends(QueuePair& qp, std::uint32_t most, std::uint32_t* bytes) const {
    std::uint32_t count = 0;
    for (; count < most; ++count) {
      const SendWqe& wqe = qp.sq.at(cursor_ + count);
      if (wqe.op != SendOp::kSend || wqe.length > kShortSendBytes) break;
      if (count > 0 && has(wqe.flags, SendFlags::kFence)) break;
      if (qp.extended_initiator && wqe.remote_srq != chosen_) break;
      *bytes += short_send_bytes(wqe.length);
    }
    return count;
  }

  /// Sends that are posted together as one record. False: nothing was sent.
  bool send_several(QueuePair& qp, Budget& budget) {
    std::uint32_t bytes = 0;
    const std::uint32_t most =
        std::min({qp.sq.tail() - cursor_, budget.requests + 1, kMostShortSends});
    const std::uint32_t count = count_short_sends(qp, most, &bytes);
    if (count < 2 || bytes > budget.bytes) return false;
    host::Record* record = reserve(qp, bytes);
    if (record == nullptr) return false;
    bool awaited = false;
    std::byte* at = record->payload;
    for (std::uint32_t i = 0; i < count; ++i) {
      SendWqe& wqe = qp.sq.at(cursor_ + i);
      ShortSend message{};
      message.bytes = static_cast<std::uint16_t>(wqe.length);
      message.flags = has(wqe.flags, SendFlags::kSolicited) ? kSolicits : 0;
      std::memcpy(at, &message, sizeof message);
      // Whoever cannot be read fails when its own turn comes.
      if (gather(qp, wqe, 0, {at + sizeof message, wqe.length}) != CompletionStatus::kSuccess) {
        return false;
      }
      awaited = awaited || wqe.signaled();
      at += short_send_bytes(wqe.length);
    }
    host::RecordHeader header = outbox_.header_for(qp, Ask::kSends, bytes);
    header.flags |= kFirstPart | kLastPart;
    outbox_.publish(header, {&qp, cursor_, true, awaited, static_cast<std::uint8_t>(count)});
    published_ = true;
    cursor_ += count;
    budget.requests -= count - 1;
    budget.bytes -= bytes;
    return true;
  }

  Step through_ring(QueuePair& qp, SendWqe& wqe, Budget& budget, Ask ask) {
    return put_part(qp, wqe, budget, ask, sizeof(RemotePart),
                    [&](host::RecordHeader& header, std::byte* at, bool last) {
                      const RemotePart part{wqe.rdma.remote.address + offset_,
                                            wqe.rdma.remote.key.value, offset_, 0, 0};
                      std::memcpy(at, &part, sizeof part);
                      if (last) mark(wqe, header);
                    });
  }

  // ---- answers -----------------------------------------------------------------------------

  void on_answer(QueuePair& qp, std::uint32_t sequence, RingAnswer& answer) {
    if (answer.messages > 1) sequence += complete_all_but_one(qp, answer);
    SendWqe& wqe = qp.sq.front();
    const bool completes = NeighbourOutbox::completes(answer.cookie);
    const auto how = answer_in(answer.status);
    if (how == Answer::kDone || !reliable_) [[likely]] {
      if (!take_data(qp, wqe, answer)) {
        cursor_ = qp.sq.head();
        static_cast<void>(give_up(qp, CompletionStatus::kLocalProtectionError));
      } else if (completes) {
        complete(qp, wqe);
      }
      return;
    }
    // Begin again with this element; what else is in the ring was not executed.
    next_run(sequence);
    cursor_ = qp.sq.head();
    offset_ = wqe.started ? wqe.length : 0;
    started_ = false;
    Step step = Step::kWait;
    switch (how) {
      case Answer::kNotReady:
        step = not_ready(qp, timer_code_in(answer.status));
        break;
      case Answer::kOutOfTurn:
      case Answer::kNobody:
        peer_ = {};
        step = no_peer(qp, wqe);
        break;
      default:
        step = fail(qp, status_of(how));
    }
    if (step == Step::kNext) ++cursor_;
  }

  /// Of the messages in a record those before the one that the answer is for; how many they are.
  std::uint32_t complete_all_but_one(QueuePair& qp, const RingAnswer& answer) {
    const auto last = static_cast<std::uint8_t>(answer.messages - 1);
    const bool all = answer_in(answer.status) == Answer::kDone || !reliable_;
    const std::uint32_t count = all ? last : std::min(answer.executed, last);
    for (std::uint32_t i = 0; i < count; ++i) complete(qp, qp.sq.front());
    return count;
  }

  /// The front element has ended well; the one in work, if any, is another.
  void complete(QueuePair& qp, const SendWqe& wqe) {
    answered_offset_ = 0;
    waiting_since_ = 0;
    retries_rnr_ = qp.attributes.rnr_retry;
    complete_front(qp, CompletionStatus::kSuccess, wqe.length);
  }

  /// What reads and atomics bring home.
  bool take_data(QueuePair& qp, SendWqe& wqe, RingAnswer& answer) {
    if (transport::is_atomic(wqe.op)) {
      return take_home(qp, wqe, 0, std::as_bytes(std::span(&answer.old_value, 1)));
    }
    if (!transport::is_read(wqe.op)) return true;
    const std::uint32_t n = std::min(answer.bytes, wqe.length - answered_offset_);
    const std::uint32_t at = std::exchange(answered_offset_, answered_offset_ + n);
    return take_home(qp, wqe, at, {answer.data.get(), n});
  }

  bool take_home(QueuePair& qp, SendWqe& wqe, std::uint64_t offset,
                 std::span<const std::byte> from) {
    return scatter(qp, wqe.sge_list(), offset, from, Hold::kLocal) == CompletionStatus::kSuccess;
  }

  // ---- memory semantics --------------------------------------------------------------------

  /// The peer's memory for the next n bytes, published; at the start the whole range is checked, so
  /// that a request that does not fit touches nothing.
  TargetPlace target_place(const SendWqe& wqe, host::FlightSlot& slot, std::uint64_t n,
                           Access need) {
    slot.put(FlightUse::kQueuePair, peer_.flight);
    const RemoteAddress& remote = wqe.rdma.remote;
    if (offset_ == 0 && n < wqe.length) {
      const TargetPlace whole =
          check_target(*link_, peer_, slot, {remote.key, remote.address, wqe.length, need});
      if (whole.verdict != TargetPlace::Verdict::kAllowed) return whole;
    }
    return check_target(*link_, peer_, slot, {remote.key, remote.address + offset_, n, need});
  }

  /// Moves the next bytes of a read or write: by ourselves, or else the peer does it. Nothing: all
  /// of them have been moved, by ourselves.
  std::optional<Step> transfer(QueuePair& qp, SendWqe& wqe, Budget& budget, Ask ask) {
    host::FlightSlot* slot = page_.flight();
    // Which domain's keys count depends on the receive queue: that is the peer's business.
    if (parts_in_ring_ || slot == nullptr || qp.extended_initiator) {
      return through_ring(qp, wqe, budget, ask);
    }
    outbox_.leave();
    const host::FlightScope scope(slot);
    const bool writes = ask == Ask::kWrite;
    const std::uint64_t n = std::min<std::uint64_t>(wqe.length - offset_, budget.bytes);
    const TargetPlace place =
        target_place(wqe, *slot, n, writes ? Access::kRemoteWrite : Access::kRemoteRead);
    if (!peer_.holds()) return nobody(qp, wqe);
    if (place.verdict == TargetPlace::Verdict::kRefused) {
      return refuse(qp, wqe, CompletionStatus::kRemoteAccessError);
    }
    if (place.verdict == TargetPlace::Verdict::kTargetsTask ||
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
        return refuse(qp, wqe, CompletionStatus::kRemoteAccessError);
      case Copied::kTargetGone:
        return nobody(qp, wqe);
      case Copied::kNotAllowed:
        return through_ring(qp, wqe, budget, ask);
    }
    offset_ += static_cast<std::uint32_t>(n);
    budget.bytes -= n;
    if (offset_ < wqe.length) return Step::kMore;
    return {};
  }

  Step write(QueuePair& qp, SendWqe& wqe, Budget& budget) {
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

  Step read(QueuePair& qp, SendWqe& wqe, Budget& budget) {
    if (!alone(qp)) return Step::kWait;
    if (wqe.length > 0) {
      if (const auto step = transfer(qp, wqe, budget, Ask::kRead)) return *step;
    }
    return finish(qp, wqe);
  }

  Step atomic(QueuePair& qp, SendWqe& wqe) {
    if (alone(qp) && wqe.rdma.remote.address % 8 == 0 && !qp.extended_initiator) {
      if (host::FlightSlot* slot = page_.flight()) {
        const host::FlightScope scope(slot);
        const TargetPlace at = target_place(wqe, *slot, 8, Access::kRemoteAtomic);
        if (!peer_.holds()) return nobody(qp, wqe);
        if (at.verdict == TargetPlace::Verdict::kRefused) {
          return refuse(qp, wqe, CompletionStatus::kRemoteAccessError);
        }
        if (at.verdict == TargetPlace::Verdict::kAllowed && at.mapped != nullptr) {
          return atomic_in_arena(qp, wqe, at.mapped);
        }
      }
    }
    const Ask ask = wqe.op == SendOp::kCompareSwap ? Ask::kCompareSwap : Ask::kFetchAdd;
    const bool sent =
        put(qp, ask, sizeof(RemotePart), Ends::kAwaited,
            [&](host::RecordHeader& header, std::byte* payload) {
              header.flags |= kFirstPart | kLastPart;
              header.length = 8;
              const RemotePart part{wqe.rdma.remote.address, wqe.rdma.remote.key.value, 0,
                                    wqe.rdma.compare, wqe.rdma.operand};
              std::memcpy(payload, &part, sizeof part);
              return true;
            });
    return sent ? under_way() : Step::kWait;
  }

  Step atomic_in_arena(QueuePair& qp, SendWqe& wqe, std::byte* mapped) {
    const memory::Place place{qp.space, reinterpret_cast<std::uint64_t>(mapped)};
    const auto old = wqe.op == SendOp::kCompareSwap
                         ? memory::compare_swap(place, wqe.rdma.compare, wqe.rdma.operand)
                         : memory::fetch_add(place, wqe.rdma.operand);
    if (!old) return refuse(qp, wqe, CompletionStatus::kRemoteAccessError);
    return take_home(qp, wqe, 0, std::as_bytes(std::span(&*old, 1)))
               ? finish(qp, wqe)
               : give_up(qp, CompletionStatus::kLocalProtectionError);
  }

  host::ProcessPage& page_;
  NeighbourOutbox outbox_;
  NeighbourShortWay short_way_;
  Nanoseconds fails_at_ = 0;  ///< not 0: the peer's process is gone
  TargetPeer peer_;
  std::uint32_t cursor_ = 0;    ///< the next element to execute; those before are in the ring
  std::uint32_t answered_ = 0;  ///< sequence of the next record to be answered
  std::uint32_t answered_offset_ = 0;  ///< bytes of the front read that have come
  bool parts_in_ring_ = false;         ///< of the element at the cursor
  bool published_ = false;             ///< the doorbell is still to be rung
  bool full_ = false;                  ///< the ring was
  std::optional<SrqNumber> chosen_;    ///< extended connections: what the peer was told last
};

}  // namespace

std::unique_ptr<queue::Path> make_neighbour_path(QueuePair& qp,
                                                 std::shared_ptr<host::Outbound> link,
                                                 host::ProcessPage& page) {
  return std::unique_ptr<queue::Path>(new (std::nothrow)
                                          NeighbourPathOfProcess(qp, std::move(link), page));
}

}  // namespace weft::path

// Reaches a peer in another process of the host. The initiator does the work where it can: reads
// and writes go straight to the peer's memory, in an arena that both have mapped or by system call;
// what has to happen at the peer (sends, immediates, atomics on other memory) goes through the
// link's ring and is finished by whoever polls there. docs/same-host.md tells how they
// keep order.
//
// Executes the elements of the send queue in order: those that the ring takes may be under way
// together, all else waits until it is alone. Its parts: neighbour_initiator.cc (the
// element in turn, its peer, and the fast paths), neighbour_initiator_ring.cc (records and their
// answers), neighbour_initiator_memory.cc (reads, writes and atomics that it does by itself).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "host/link.h"
#include "path/direct_copy.h"
#include "path/initiator.h"
#include "path/neighbour_fast_path.h"
#include "path/neighbour_outbox.h"
#include "path/neighbour_record.h"
#include "path/neighbour_target.h"
#include "queue/ring_receiver.h"
#include "queue/scatter.h"
#include "transport/message.h"

namespace weft::path {

// Hidden: its functions call each other without a detour.
#pragma GCC visibility push(hidden)
class NeighbourInitiator final : public Initiator, public queue::RingReceiver {
  using Budget = queue::Budget;
  using QueuePair = queue::QueuePair;
  using RingAnswer = queue::RingAnswer;
  using SendWqe = queue::SendWqe;

 public:
  NeighbourInitiator(const QueuePair& qp, std::shared_ptr<host::Outbound> link,
                     host::ProcessPage& page)
      : Initiator(qp), link_(std::move(link)), outbox_(*link_), fast_path_(page) {
    // As on the wire: what belongs to another connection of the same two does not fit.
    inbox.expected = qp.attributes.receive_psn.value();
  }

  void advance(QueuePair& qp, queue::SendGuard guard, Budget budget) override;

  queue::PeerView look_at_peer(QueuePair& qp, RemoteKey key) override;

  bool fast_post(QueuePair& qp, const SendRequest& request) override;

  void start_sending(QueuePair& qp) override {
    Initiator::start_sending(qp);
    next_run(qp.attributes.send_psn.value());
    cursor_ = qp.sq.head();
  }

  void stop(QueuePair& qp) override;

  void on_answers(QueuePair& qp, queue::SendGuard guard, std::span<RingAnswer> answers) override;

  void on_link_lost(QueuePair& qp, const host::Outbound& link) override;

  RingReceiver* ring_receiver() override { return this; }

 private:
  /// Whether an element ends with a record, and whether somebody waits for that.
  enum class Ends : std::uint8_t { kNot, kQuietly, kAwaited };
  static Ends how_it_ends(const SendWqe& wqe) {
    return wqe.signaled() || transport::is_read(wqe.op) ? Ends::kAwaited : Ends::kQuietly;
  }
  /// Up to this size a record does not let others wait for the ring.
  static constexpr std::uint32_t kShortBytes = 1024;

  // ---- the element at the cursor -----------------------------------------------------------

  /// Nothing is on its way: the element at the cursor is the front one.
  bool alone(QueuePair& qp) const { return cursor_ == qp.sq.head(); }

  Step execute(QueuePair& qp, SendWqe& wqe, Budget& budget);

  /// Tells the peer which of its receive queues the element is for. False: the ring is full.
  [[gnu::noinline]] bool choose(QueuePair& qp, const SendWqe& wqe);

  Step local(QueuePair& qp, SendWqe& wqe);

  Step finish(QueuePair& qp, const SendWqe& wqe) {
    ++cursor_;
    return done(qp, wqe);
  }
  /// The element fails, once everything before it has ended.
  Step give_up(QueuePair& qp, CompletionStatus status);

  // ---- fast paths --------------------------------------------------------------------------

  bool fast_write(QueuePair& qp, const SendRequest& request);

  bool fast_read(QueuePair& qp, const SendRequest& request);

  /// Finds out what fast_post() needs to know.
  [[gnu::noinline, gnu::cold]] void remember(QueuePair& qp, const SendRequest& request);

  /// A message that fits into one line of the ring, behind nothing that is not in the ring. The
  /// record goes out first, the rest is done while it travels. A peer that sleeps is woken by
  /// the general path.
  bool fast_send(QueuePair& qp, const SendRequest& request);

  // ---- the peer ----------------------------------------------------------------------------

  bool find_peer(QueuePair& qp) {
    if (peer_.holds() && !link_->dead.load(std::memory_order_relaxed)) [[likely]]
      return true;
    return look_up_peer(qp);
  }

  [[gnu::noinline]] bool look_up_peer(QueuePair& qp);

  Step peer_missing(QueuePair& qp, SendWqe& wqe);

  void on_peer_dead(QueuePair& qp);

  Step drop(QueuePair& qp, SendWqe& wqe) {
    const Step step = complete_dropped(qp, wqe);
    ++cursor_;
    return step;
  }

  /// The peer's key or memory does not allow the request; the peer learns of it through the ring.
  Step refuse(QueuePair& qp, SendWqe& wqe, Complaint complaint);

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
                Fill fill);

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

  Step send(QueuePair& qp, SendWqe& wqe, Budget& budget);

  /// How many of the elements from the cursor on are short sends, and the bytes of all of them.
  std::uint32_t count_short_sends(QueuePair& qp, std::uint32_t most, std::uint32_t* bytes) const;

  /// Sends that are posted together as one record. False: nothing was sent.
  bool send_several(QueuePair& qp, Budget& budget);

  Step through_ring(QueuePair& qp, SendWqe& wqe, Budget& budget, Ask ask);

  // ---- answers -----------------------------------------------------------------------------

  void on_answer(QueuePair& qp, std::uint32_t sequence, RingAnswer& answer);

  /// Of the messages in a record those before the one that the answer is for; how many they are.
  std::uint32_t complete_all_but_one(QueuePair& qp, const RingAnswer& answer);

  /// The front element has ended well; the one in work, if any, is another.
  void complete(QueuePair& qp, const SendWqe& wqe);

  /// What reads and atomics bring home.
  bool take_data(QueuePair& qp, SendWqe& wqe, RingAnswer& answer);

  bool take_home(QueuePair& qp, SendWqe& wqe, std::uint64_t offset,
                 std::span<const std::byte> from) {
    return queue::scatter(qp, wqe.sge_list(), offset, from, memory::Hold::kLocal) ==
           CompletionStatus::kSuccess;
  }

  // ---- memory semantics --------------------------------------------------------------------

  /// The peer's memory for the next n bytes, published; at the start the whole range is checked, so
  /// that a request that does not fit touches nothing.
  TargetPlace target_place(const SendWqe& wqe, host::FlightSlot& slot, std::uint64_t n,
                           Access need);

  /// Moves the next bytes of a read or write: by ourselves, or else the peer does it. Nothing: all
  /// of them have been moved, by ourselves.
  std::optional<Step> transfer(QueuePair& qp, SendWqe& wqe, Budget& budget, Ask ask);

  Step write(QueuePair& qp, SendWqe& wqe, Budget& budget);

  Step read(QueuePair& qp, SendWqe& wqe, Budget& budget);

  Step atomic(QueuePair& qp, SendWqe& wqe);

  Step atomic_in_arena(QueuePair& qp, SendWqe& wqe, std::byte* mapped);

  const std::shared_ptr<host::Outbound> link_;
  NeighbourOutbox outbox_;
  NeighbourFastPath fast_path_;
  Nanoseconds fails_at_ = 0;  ///< not 0: the peer is gone, and what is under way fails then
  TargetPeer peer_;
  std::uint32_t cursor_ = 0;    ///< the next element to execute; those before are in the ring
  std::uint32_t answered_ = 0;  ///< sequence of the next record to be answered
  std::uint32_t answered_offset_ = 0;  ///< bytes of the front read that have come
  bool parts_in_ring_ = false;         ///< of the element at the cursor
  bool published_ = false;             ///< the doorbell is still to be rung
  bool full_ = false;                  ///< the ring was
  std::optional<SrqNumber> chosen_;    ///< extended connections: what the peer was told last
};
#pragma GCC visibility pop

std::unique_ptr<queue::Path> make_neighbour_path(queue::QueuePair& qp,
                                                 std::shared_ptr<host::Outbound> link,
                                                 host::ProcessPage& page);

}  // namespace weft::path

#include "path/neighbours.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fast_paths.h"
#include "memory/copy.h"
#include "memory/flight.h"
#include "obs/log.h"
#include "path/direct_copy.h"
#include "path/neighbour_initiator.h"
#include "path/neighbour_outbox.h"

namespace weft::path {
namespace {

using memory::Flight;
using memory::Hold;
using queue::QueuePair;
using queue::RingAnswer;

/// Lines of records that may be executed before the initiator is told.
constexpr std::uint32_t kMostOwed = 64;
/// Lines of records that come together, not one by one.
constexpr std::uint32_t kManyLines = 4;
/// Polls that find nothing before answers are looked for, and given, that nobody waits for; and how
/// often those that are given wait for more of them.
constexpr int kIdlePolls = 8;
constexpr std::uint32_t kIdleRounds = 4;
/// Polls that bring messages before answers are looked for at the first one that brings none, and
/// before they are looked for all the same.
constexpr int kManyPassedOver = 16, kMostPassedOver = 64;
/// Turns at the rings before a queue pair ends: enough for what has come, and no more than that.
constexpr int kLastTurns = 64;
/// Records whose answers are taken together with that of the one before.
constexpr std::uint8_t kMostFollowers = 63;
/// How long a connecting queue pair waits for the other process to answer the first call.
constexpr int kWelcomeWait_ms = 100;

bool is_read(const host::Record& record) {
  return record.header.kind == static_cast<std::uint8_t>(Ask::kRead);
}

/// The answer, copied out of the record, whose memory the other process may write at any time.
void take_answer(const host::RingProducer::Answered& answered, RingAnswer& answer) {
  answer.cookie = answered.cookie;
  answer.status = __atomic_load_n(&answered.record->status, __ATOMIC_RELAXED);
  answer.messages = answered.messages;
  if (answered.messages > 1) {
    answer.executed = __atomic_load_n(&answered.record->executed, __ATOMIC_RELAXED);
  } else if (answered.lines > 1) {
    std::memcpy(&answer.old_value, answered.record->payload + offsetof(RemotePart, compare),
                sizeof answer.old_value);
    if (is_read(*answered.record)) {
      const std::uint32_t room =
          answered.lines * host::kLine - host::kRecordPayloadAt - std::uint32_t{sizeof(RemotePart)};
      const std::uint32_t bytes = answered.record->header.bytes;
      answer.bytes = std::min(room, bytes - std::min(bytes, std::uint32_t{sizeof(RemotePart)}));
      answer.data = std::make_unique_for_overwrite<std::byte[]>(answer.bytes);
      std::memcpy(answer.data.get(), answered.record->payload + sizeof(RemotePart), answer.bytes);
    }
  }
}

std::uint32_t datagram_bytes(const queue::SendWqe& wqe) {
  return static_cast<std::uint32_t>(sizeof(DatagramPart) + wqe.length);
}

queue::RingReceiver* ring_receiver(const QueuePair& qp) {
  return qp.path != nullptr ? qp.path->ring_receiver() : nullptr;
}

bool has_awaited(const host::Outbound& link) {
  return link.awaited.load(std::memory_order_relaxed) != 0 && link.ring.moved();
}

}  // namespace

Neighbours::Neighbours(std::unique_ptr<host::Presence> presence, QueuePairTable& table,
                       queue::Scheduler& scheduler, Walk walk)
    : presence_(std::move(presence)),
      links_(presence_->links()),
      page_(presence_->page()),
      table_(table),
      scheduler_(scheduler),
      walk_(std::move(walk)) {}

Neighbours::~Neighbours() {
  const std::lock_guard guard(presence_->receive_lock);
  flush_owed_acks();
}

void Neighbours::at_exit() {
  if (!presence_->receive_lock.try_lock()) return;
  const std::lock_guard guard(presence_->receive_lock, std::adopt_lock);
  flush_owed_acks();
}

/// Whoever took a message and leaves still tells its sender that it came.
void Neighbours::flush_owed_acks() {
  for (const auto& link : presence_->inbound()) {
    if (link->owed > 0) link->give_back();
  }
}

Result<void> Neighbours::call(const Gid& gid, Qpn qpn) {
  auto link = presence_->reach(gid, qpn);
  if (!link) return tl::unexpected(link.error());
  if (!(*link)->usable()) (*link)->receive(kWelcomeWait_ms);
  return {};
}

std::unique_ptr<queue::Path> Neighbours::make_path(QueuePair& qp, const Gid& gid, Qpn qpn) {
  auto link = presence_->reach(gid, qpn);
  if (!link) return nullptr;
  return make_neighbour_path(qp, std::move(*link), **host::ProcessPage::mine());
}

// ---- polling --------------------------------------------------------------------------------

// The peer gave back what somebody here waits for before it sent what we are about to serve: a
// request is complete before the reply to it is there, as on a wire.
inline void Neighbours::collect_awaited() {
  for (const auto& link : presence_->outbound()) {
    if (has_awaited(*link)) collect(*link);
  }
}

/// Asked after ready(): of the record that was seen there, the answers that came before it.
inline bool Neighbours::answers_wait() const {
  for (const auto& link : presence_->outbound()) {
    if (has_awaited(*link)) return true;
  }
  return false;
}

inline void Neighbours::serve(host::Inbound& link, LastServed& last) {
  collect_awaited();
  std::uint32_t lines = base::fast_paths.on() && fast_serve_send(link, last) ? 1 : 0;
  if (lines == 1) expected_ = &last;
  if (lines == 0 || (link.ring.ready() && !answers_wait())) lines += serve_more(link, last);
  link.owed += lines;
  link.idle_rounds = 0;
  hurries_ = hurries_ || link.ring.awaited();
  // Many at once are a stream, whose sender waits for room rather than for a reply.
  if (link.owed > kMostOwed || (lines >= kManyLines && link.ring.awaited())) link.give_back();
}

[[gnu::always_inline]] inline bool Neighbours::serve_rings() {
  bool came = false;
  std::size_t place = 0;
  for (const auto& link : presence_->inbound()) {
    if (link->ring.ready()) {
      came = true;
      serve(*link, last_[place % last_.size()]);
    }
    ++place;
  }
  return came;
}

/// Nothing is looked at but the ring of the last message: what else there may be to do waits for
/// poll(), and for no longer than a few messages.
bool Neighbours::receive(const queue::CompletionQueue& cq, Completion* out) {
  if (!presence_->receive_lock.try_enter()) [[unlikely]]
    return false;
  const bool received = receive_expected(cq, out);
  presence_->receive_lock.leave();
  return received;
}

inline bool Neighbours::receive_expected(const queue::CompletionQueue& cq, Completion* out) {
  const LastServed* last = expected_;
  if (last == nullptr || last->cq != &cq || !base::fast_paths.on()) return false;
  host::Inbound& link = *last->link;
  if (!link.ring.ready()) {
    paused_ = true;
    base::relax();
    if (!link.ring.ready()) return false;
  }
  if (passed_over_ + 1 >= kMostPassedOver || link.owed >= kMostOwed || link.ring.awaited() ||
      answers_wait()) [[unlikely]] {
    return false;
  }
  ++passed_over_;
  idle_polls_ = 0;
  return receive_short_send(link, *last, out);
}

bool Neighbours::poll() {
  if (!presence_->receive_lock.try_lock()) return false;  // somebody else is at it
  const std::lock_guard guard(presence_->receive_lock, std::adopt_lock);
  bool came = false;
  for (bool paused = std::exchange(paused_, false);; paused = true) {
    came = serve_rings();
    // A message that came is what the program waits for; all else can wait a little, and most of it
    // for longer.
    if (came) idle_polls_ = 0;
    if (came ? ++passed_over_ >= kMostPassedOver
             : passed_over_ >= kManyPassedOver || in_a_hurry() || ++idle_polls_ >= kIdlePolls) {
      break;
    }
    if (came || paused) return came || owes_;
    // Whoever looks at a line without a pause holds up the one who is about to write it.
    base::relax();
  }
  passed_over_ = idle_polls_ = 0;
  owes_ = hurries_ = false;
  const bool gave = give_back_all();
  return collect_answers() || gave || came || owes_;
}

bool Neighbours::in_a_hurry() {
  if (hurries_) return true;
  for (const auto& link : presence_->outbound()) {
    if (link->awaited.load(std::memory_order_relaxed) != 0) return true;
  }
  return false;
}

bool Neighbours::has_work(bool owed_counts) {
  if (!presence_->receive_lock.try_lock()) return true;
  const std::lock_guard guard(presence_->receive_lock, std::adopt_lock);
  for (const auto& link : presence_->inbound()) {
    if (link->ring.ready() || (owed_counts && link->owed > 0) ||
        link->dead.load(std::memory_order_acquire)) {
      return true;
    }
  }
  for (const auto& link : presence_->outbound()) {
    const std::lock_guard ring_guard(link->lock);
    if (link->ring.moved() || link->dead.load(std::memory_order_acquire)) return true;
  }
  return false;
}

void Neighbours::settle() {
  if (!presence_->receive_lock.try_lock()) return;  // somebody polls
  const std::lock_guard guard(presence_->receive_lock, std::adopt_lock);
  flush_owed_acks();
}

/// Gives the lines of the records that were served.
std::uint32_t Neighbours::serve_more(host::Inbound& link, LastServed& last) {
  const auto [lines, unseen] =
      RecordService(table_, link, last).serve_some([this] { return answers_wait(); });
  if (unseen > 0) [[unlikely]]
    passive_ops_served_.store(passive_ops_served() + unseen, std::memory_order_relaxed);
  return lines;
}

// The initiator waits for our next message rather than for the news that we got its own. Those
// travel on a cache line of their own, and its look at that line holds up what it waits for: so
// they follow when there is nothing else to do, and when somebody waits for them or there are many.
bool Neighbours::give_back_all() {
  bool did = false;
  auto& links = presence_->inbound();
  for (std::size_t i = 0; i < links.size();) {
    host::Inbound& link = *links[i];
    // Before the look into the ring: what it sent last is there then.
    const bool dead = link.dead.load(std::memory_order_acquire);
    if (link.ring.ready() && !link.ring.broken()) {
      owes_ = true;
    } else if (link.owed > 0) {
      if (link.ring.awaited() || ++link.idle_rounds >= kIdleRounds) {
        link.give_back();
        did = true;
      } else {
        owes_ = true;
      }
    } else if (dead || link.ring.broken()) [[unlikely]] {
      // What it sent before its end has been executed.
      links.erase(links.begin() + static_cast<std::ptrdiff_t>(i));
      last_.fill({});  // another link may come to lie where this was
      expected_ = nullptr;
      presence_->dropped_link();
      did = true;
      continue;
    }
    ++i;
  }
  return did;
}

bool Neighbours::collect_answers() {
  bool did = false;
  auto& links = presence_->outbound();
  for (std::size_t i = 0; i < links.size();) {
    host::Outbound& link = *links[i];
    // Before the look for answers: those that it gave last are there then.
    const bool dead = link.dead.load(std::memory_order_acquire);
    if (link.ring.moved()) did |= collect(link);
    if (dead) [[unlikely]] {
      const std::shared_ptr<host::Outbound> gone = links[i];
      links.erase(links.begin() + static_cast<std::ptrdiff_t>(i));
      fail_paths_of(*gone);
      presence_->dropped_link();
      did = true;
      continue;
    }
    ++i;
  }
  return did;
}

/// Hands answers to their queue pairs, one run of the same queue pair after the other.
bool Neighbours::collect(host::Outbound& link) {
  bool did = false;
  std::vector<void*> waiting;
  for (;;) {
    std::size_t count = 0;
    QueuePair* owner = nullptr;
    {
      const std::lock_guard guard(link.lock);
      host::RingProducer::Answered answered;
      // Published under the ring's lock: whoever destroys the queue pair makes the ring forget it
      // under the same lock, and then waits for this word.
      while (count < answers_.size() && link.ring.peek(&answered)) {
        auto* qp = static_cast<QueuePair*>(answered.owner);
        if (qp != nullptr) {
          if (owner != nullptr && owner != qp) break;
          if (owner == nullptr) {
            owner = qp;
            Flight::publish(Hold::kSelf, owner);
          }
          RingAnswer& answer = answers_[count++];
          take_answer(answered, answer);
          // Many small messages that nobody waits for are as one record of many.
          if (answer.messages == 1 && answer.status == 0 && base::fast_paths.on() &&
              NeighbourOutbox::completes(answer.cookie)) {
            answer.messages += link.ring.pop_followers(answered, kMostFollowers);
          }
        }
        if (answered.awaited) link.await(-1);
        link.ring.pop();
        did = true;
      }
      if (link.ring.broken()) link.hang_up();
      if (owner == nullptr) {
        waiting.swap(link.waiting);
        for (void* waiter : waiting) scheduler_.run_soon(*static_cast<QueuePair*>(waiter));
      }
    }
    if (owner == nullptr) break;
    queue::SendGuard guard(owner->send_lock);
    queue::RingReceiver* receiver = ring_receiver(*owner);
    if (receiver != nullptr) {
      receiver->on_answers(*owner, std::move(guard), std::span(answers_).first(count));
    } else {
      guard.unlock();
    }
    Flight::clear(Hold::kSelf);
  }
  return did;
}

void Neighbours::drain_rings() {
  const std::lock_guard guard(presence_->receive_lock);
  for (int turn = 0; turn < kLastTurns && serve_rings(); ++turn) {
  }
  flush_owed_acks();
  for (const auto& link : presence_->outbound()) {
    if (link->ring.moved()) collect(*link);
  }
}

// ---- death ----------------------------------------------------------------------------------

void Neighbours::fail_paths_of(const host::Outbound& link) {
  walk_([&](QueuePair& qp) {
    // Published by the walk, so that the queue pair and its path stay. One that gets its path later
    // finds the link dead by itself.
    if (queue::RingReceiver* receiver = ring_receiver(qp)) receiver->on_link_lost(qp, link);
  });
}

// ---- datagrams ------------------------------------------------------------------------------

Neighbours::Datagram Neighbours::send_datagram(QueuePair& qp, queue::SendWqe& wqe) {
  const queue::SendWqe::Datagram& to = wqe.datagram;
  auto reached = presence_->reach(to.destination.gid, to.qpn);
  if (!reached) return Datagram::kNobodyHears;
  host::Outbound& link = **reached;
  if (!link.usable()) link.receive(0);
  if (link.dead.load(std::memory_order_acquire)) return Datagram::kNobodyHears;
  const bool sent = link.usable() && put_datagram(link, qp, wqe, Completes::kYes);
  return sent ? Datagram::kSent : Datagram::kWaits;
}

/// Waits for the welcome, as a program that posts and ends may never poll; not for one that was
/// waited for in vain.
void Neighbours::first_contact(host::Outbound& link) {
  int wait_ms = 0;
  {
    const std::lock_guard guard(link.lock);
    wait_ms = link.lags ? 0 : kWelcomeWait_ms;
  }
  link.receive(wait_ms);
}

bool Neighbours::send_multicast(QueuePair& qp, queue::SendWqe& wqe,
                                const std::function<bool(const host::GroupMember&)>& skips,
                                bool insists) {
  const Gid& group = wqe.datagram.destination.gid;
  std::vector<std::shared_ptr<host::Outbound>> ready, waited_for;
  for (const host::GroupMember& member : groups_.members(group, scheduler_.now())) {
    if (skips(member)) continue;
    auto reached = presence_->reach(member.address, member.some_qpn());
    if (!reached) continue;
    host::Outbound& link = **reached;
    if (!link.usable()) first_contact(link);
    const std::lock_guard guard(link.lock);
    const bool room = link.usable() && link.ring.reserve(datagram_bytes(wqe)) != nullptr;
    if (room) link.lags = false;
    (room ? ready : waited_for).push_back(std::move(*reached));
  }
  // One that was waited for in vain is not waited for again before it has gone on.
  for (const auto& link : waited_for) {
    const std::lock_guard guard(link->lock);
    if (!insists && !link->lags && !link->dead.load(std::memory_order_acquire)) return false;
  }
  for (const auto& link : waited_for) {
    const std::lock_guard guard(link->lock);
    link->lags = true;
    qp.count(obs::Counter::kDroppedMessages);
  }
  for (const auto& link : ready) {
    if (!put_datagram(*link, qp, wqe, Completes::kNo)) qp.count(obs::Counter::kDroppedMessages);
  }
  return true;
}

/// False: there is no room.
bool Neighbours::put_datagram(host::Outbound& link, QueuePair& qp, queue::SendWqe& wqe,
                              Completes completes) {
  const queue::SendWqe::Datagram& to = wqe.datagram;
  {
    const std::lock_guard guard(link.lock);
    const std::uint32_t bytes = datagram_bytes(wqe);
    static_assert(host::kFirstRingBytes / 4 - host::kLine >= sizeof(DatagramPart) + 4096);
    host::Record* record = link.ring.reserve(bytes);
    if (record == nullptr) return false;
    const AddressVector& vector = to.destination;
    const DatagramPart part{
        to.qkey.value, vector.flow_label, vector.traffic_class, vector.hop_limit, 0, vector.gid};
    std::memcpy(record->payload, &part, sizeof part);
    host::RecordHeader header;
    header.kind = static_cast<std::uint8_t>(Ask::kDatagram);
    header.flags = static_cast<std::uint8_t>((qp.attributes.port - 1u) << kPortShift);
    if (has(wqe.flags, SendFlags::kSolicited)) header.flags |= kSolicits;
    if (wqe.op == SendOp::kSendImmediate) header.flags |= kHasImmediate;
    header.destination = to.qpn.value;
    header.source = qp.qpn.value;
    header.length = wqe.length;
    header.immediate = wqe.immediate;
    header.bytes = bytes;
    // The caller has checked the list; one that cannot be read after all is not sent.
    const bool read = gather(qp, wqe, 0, {record->payload + sizeof part, wqe.length}) ==
                      CompletionStatus::kSuccess;
    if (completes == Completes::kYes) complete_front(qp, CompletionStatus::kSuccess, wqe.length);
    if (!read) return true;
    link.ring.publish(header, {nullptr, 0});
  }
  link.ring_doorbell();
  return true;
}

}  // namespace weft::path

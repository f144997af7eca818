#include "path/neighbour_service.h"

#include <cstring>
#include <mutex>

#include "memory/flight.h"
#include "path/neighbour_execution.h"

namespace weft::path {
namespace {

using host::RecordHeader;
using memory::Flight;
using memory::Hold;
using queue::QueuePair;
using Taken = host::RingConsumer::Taken;

/// Bytes that a record counts as by itself.
constexpr std::int64_t kRecordCost = 1024;

/// Where records of a connection from there arrive; nullptr when there is none. recv_lock held.
queue::RingInbox* find_inbox(const QueuePair& qp, const Gid& source, std::uint32_t source_qpn) {
  if (!qp.can_receive() || qp.path == nullptr || qp.attributes.remote_qpn.value != source_qpn ||
      qp.attributes.remote_gid != source) {
    return nullptr;
  }
  queue::RingReceiver* receiver = qp.path->ring_receiver();
  return receiver != nullptr ? &receiver->inbox : nullptr;
}

constexpr std::uint8_t kWhole = kFirstPart | kLastPart;

/// Calls execute(qp, taken) for the next record if it is a send, whole, in turn and for the queue
/// pair of the last one, which is published then, with its recv_lock. Gives what that gives.
template <class Execute>
[[gnu::always_inline]] inline bool on_short_send(const host::Inbound& link, const LastServed& last,
                                                 Execute execute) {
  Taken taken;
  if (!link.ring.peek_line(&taken)) return false;
  const RecordHeader& header = taken.header;
  if (static_cast<Ask>(header.kind) != Ask::kSend || !last.is_for(link, header) ||
      (header.flags & kAllFlags) != kWhole || header.bytes != header.length ||
      last.inbox == nullptr) {
    return false;
  }
  QueuePair& qp = *last.qp;
  Flight::publish(Hold::kPeer, &qp);
  bool executed = false;
  if (qp.recv_lock.try_enter()) {
    executed = qp.epoch.load(std::memory_order_acquire) == last.epoch &&
               header.sequence == last.inbox->expected && qp.xrc_domain == nullptr &&
               execute(qp, taken);
    qp.recv_lock.leave();
  }
  Flight::clear(Hold::kPeer);
  return executed;
}

std::span<const std::byte> message_in(const Taken& taken) {
  return {taken.record->payload, taken.header.bytes};
}

void advance(queue::RingInbox& inbox) {
  ++inbox.expected;
  inbox.use = 0;
}

}  // namespace

bool fast_serve_send(host::Inbound& link, const LastServed& last) {
  return on_short_send(link, last, [&](QueuePair& qp, const Taken& taken) {
    link.ring.accept_line(taken);
    NeighbourExecution execution(qp, link, taken, last.inbox);
    const auto message = message_in(taken);
    const auto queue = [&](auto fill) { qp.recv_cq->emplace(false, fill); };
    const Answer answer = execution.fast_receive(message, queue)
                              ? Answer::kDone
                              : execution.send_whole(message, kWhole, true);
    if (answer == Answer::kDone) [[likely]] {
      advance(*last.inbox);
    } else {
      taken.record->status = status_with(answer, qp.attributes.min_rnr_timer);
    }
    return true;
  });
}

bool receive_short_send(host::Inbound& link, const LastServed& last, Completion* out) {
  bool passed = false;
  on_short_send(link, last, [&](QueuePair& qp, const Taken& taken) {
    // Somebody waits for it to be given back, or will: the general path sees to that.
    if (taken.record->awaited != 0) [[unlikely]]
      return false;
    NeighbourExecution execution(qp, link, taken, last.inbox);
    const auto pass_to_poller = [&](auto fill) { passed = qp.recv_cq->pass_to_poller(out, fill); };
    if (!execution.fast_receive(message_in(taken), pass_to_poller)) [[unlikely]]
      return false;
    link.ring.accept_line(taken);
    advance(*last.inbox);
    ++link.owed;
    link.idle_rounds = 0;
    return true;
  });
  return passed;
}

void RecordService::serve(const Taken& taken) {
  const RecordHeader& header = taken.header;
  const bool again = qp_ != nullptr && left_ > 0 && last_.is_for(link_, header);
  if (!again && !enter(header)) {
    if (header.destination == kMulticastQpn.value) return fan_out(taken);
    taken.record->status = status_with(Answer::kNobody);
    return;
  }
  left_ -= kRecordCost + std::int64_t{header.bytes};
  NeighbourExecution execution(*qp_, link_, taken, last_.inbox);
  if (last_.inbox == nullptr) {
    if (static_cast<Ask>(header.kind) == Ask::kDatagram) execution.datagram(*last_.gid);
    ++messages_;
    return;
  }
  const std::uint32_t first = last_.inbox->expected;
  const Answer answer = qp_->epoch.load(std::memory_order_acquire) == last_.epoch
                            ? execution.connected()
                            : Answer::kNobody;
  messages_ += last_.inbox->expected - first;
  // Success needs no store: the record came with a status that says so.
  if (answer != Answer::kDone) [[unlikely]]
    taken.record->status = status_with(answer, qp_->attributes.min_rnr_timer);
}

/// A datagram for all members of the group that it names, as far as this controller has any.
void RecordService::fan_out(const Taken& taken) {
  DatagramPart part;
  const unsigned port = taken.header.flags >> kPortShift;
  if (static_cast<Ask>(taken.header.kind) != Ask::kDatagram || taken.header.bytes < sizeof part ||
      taken.header.source > kMask24 || port >= link_.addresses.size()) {
    return;
  }
  std::memcpy(&part, taken.record->payload, sizeof part);
  for (const Qpn qpn : table_.members(part.destination)) {
    QueuePair* qp = table_.find(qpn);
    if (qp == nullptr) continue;
    if (qp->service == Service::kUnreliableDatagram) {
      const std::lock_guard guard(qp->recv_lock);
      NeighbourExecution(*qp, link_, taken, nullptr).datagram(link_.addresses[port]);
    }
    Flight::clear(Hold::kPeer);
  }
}

/// Most often it is the queue pair of the last time, whose memory stays a queue pair's whatever
/// becomes of it, and its epoch tells that nothing has changed.
bool RecordService::enter(const RecordHeader& header) {
  leave();
  if (last_.is_for(link_, header)) [[likely]] {
    Flight::publish(Hold::kPeer, last_.qp);
    if (last_.qp->epoch.load(std::memory_order_acquire) == last_.epoch) [[likely]] {
      hold(*last_.qp);
      return true;
    }
    Flight::clear(Hold::kPeer);
  }
  return look_up(header);
}

bool RecordService::look_up(const RecordHeader& header) {
  last_ = {};
  const unsigned port = header.flags >> kPortShift;
  if (header.destination > kMask24 || header.source > kMask24 || port >= link_.addresses.size()) {
    return false;
  }
  QueuePair* qp = table_.find(Qpn(header.destination));
  if (qp == nullptr) return false;
  hold(*qp);
  // Before the look at the connection: a change meanwhile is noticed at the first use.
  const std::uint32_t epoch = qp->epoch.load(std::memory_order_acquire);
  const Gid& gid = link_.addresses[port];
  queue::RingInbox* inbox = nullptr;
  if (qp->service != Service::kUnreliableDatagram) {
    inbox = find_inbox(*qp, gid, header.source);
    if (inbox == nullptr) {
      leave();
      return false;
    }
  }
  last_ = {&link_, qp, qp->recv_cq, inbox, &gid, epoch, header.destination, header.source, port};
  return true;
}

}  // namespace weft::path

#include "path/neighbour_execution.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "network/flow.h"
#include "path/direct_copy.h"
#include "queue/xrc_domain.h"
#include "wire/icrc.h"
#include "wire/immediate.h"
#include "wire/packet.h"

namespace weft::path {
namespace {

using host::RecordHeader;
using memory::Flight;
using memory::Hold;
using queue::QueuePair;

Answer answer_of(CompletionStatus status) {
  switch (status) {
    case CompletionStatus::kSuccess:
      return Answer::kDone;
    case CompletionStatus::kLocalLengthError:
      return Answer::kInvalid;
    default:
      return Answer::kOperation;
  }
}

}  // namespace

Answer NeighbourExecution::connected() {
  if (ask() == Ask::kComplain) return complain();
  if (ask() == Ask::kChoose) return choose();
  if (header_.sequence != inbox_->expected) {
    if (qp_.service == Service::kReliableConnection) return Answer::kOutOfTurn;
    // Unreliable: a new message is as good as any, the rest of an old one is not.
    if (!flagged(kFirstPart) && ask() != Ask::kNotify) return Answer::kDone;
    inbox_->expected = header_.sequence;
  }
  const Answer answer = execute();
  if (answer == Answer::kDone) {
    ++inbox_->expected;
    if (flagged(kLastPart)) inbox_->use = 0;
  }
  return answer;
}

Answer NeighbourExecution::execute() {
  if (header_.length > kMaxMessageBytes) return refuse(Answer::kInvalid);
  if (qp_.xrc_domain != nullptr && !qp_.xrc_domain->select(qp_, inbox_->srq)) {
    return refuse(Answer::kInvalid);
  }
  if (ask() == Ask::kSend) [[likely]]
    return send();
  switch (ask()) {
    case Ask::kSends:
      return sends();
    case Ask::kNotify:
      return notify();
    case Ask::kWrite:
      return write();
    case Ask::kRead:
      return reliable() ? read() : refuse(Answer::kInvalid);
    case Ask::kCompareSwap:
    case Ask::kFetchAdd:
    case Ask::kAtomicWrite:
      return reliable() ? atomic() : refuse(Answer::kInvalid);
    default:
      return refuse(Answer::kInvalid);
  }
}

Answer NeighbourExecution::complain() {
  const auto status = static_cast<CompletionStatus>(header_.immediate);
  if (status == CompletionStatus::kRemoteAccessError) qp_.count(obs::Counter::kRefusedAccesses);
  if (qp_.service != Service::kReliableConnection) {
    qp_.count(obs::Counter::kDroppedMessages);
  } else {
    break_off(status == CompletionStatus::kRemoteAccessError ? queue::QpEvent::kAccessError
                                                             : queue::QpEvent::kRequestError);
  }
  return Answer::kDone;
}

Answer NeighbourExecution::refuse(Answer answer) {
  inbox_->use = 0;
  if (answer == Answer::kAccess) qp_.count(obs::Counter::kRefusedAccesses);
  if (qp_.service != Service::kReliableConnection) {
    qp_.count(obs::Counter::kDroppedMessages);
    return Answer::kDone;
  }
  if (answer == Answer::kAccess) {
    break_off(queue::QpEvent::kAccessError);
  } else if (answer == Answer::kInvalid) {
    break_off(queue::QpEvent::kRequestError);
  } else {
    fail_queue_pair(qp_);
  }
  return answer;
}

Answer NeighbourExecution::no_buffer() {
  if (qp_.service != Service::kReliableConnection) {
    qp_.count(obs::Counter::kDroppedMessages);
    return Answer::kDone;
  }
  return Answer::kNotReady;
}

Answer NeighbourExecution::choose() {
  const SrqNumber next(header_.immediate);
  if (next != inbox_->srq) {
    transport::return_receive(qp_, std::exchange(inbox_->receive, nullptr));
    inbox_->into = {};  // of another protection domain, perhaps
  }
  inbox_->srq = next;
  return Answer::kDone;
}

Answer NeighbourExecution::send() {
  if (flagged(kFirstPart) && flagged(kLastPart) && !flagged(kInvalidates)) {
    if (header_.bytes != header_.length) return refuse(Answer::kInvalid);
    return send_whole({payload(0), header_.bytes}, header_.flags, true);
  }
  if (flagged(kFirstPart)) {
    inbox_->filled = 0;
    if (!take_buffer()) return no_buffer();
  } else if (inbox_->receive == nullptr) {
    // The rest of an unreliable message that nobody took.
    return qp_.service == Service::kReliableConnection ? Answer::kOutOfTurn : Answer::kDone;
  }
  const std::uint32_t n = header_.bytes;
  if (n > header_.length || inbox_->filled > header_.length - n) return refuse(Answer::kInvalid);
  const CompletionStatus status =
      scatter(qp_, inbox_->receive->sges(), inbox_->filled, {payload(0), n}, Hold::kScatter);
  if (status != CompletionStatus::kSuccess) {
    transport::complete_receive(qp_, std::exchange(inbox_->receive, nullptr), {.status = status});
    return refuse(answer_of(status));
  }
  inbox_->filled += n;
  return flagged(kLastPart) ? deliver() : Answer::kDone;
}

Answer NeighbourExecution::sends() {
  std::uint8_t executed = 0;
  for (std::uint32_t at = 0;;) {
    const auto message = short_send_at(at);
    if (!message) return refuse(Answer::kInvalid);
    const std::uint32_t next = at + short_send_bytes(message->bytes);
    const Answer answer = send_whole({payload(at + sizeof(ShortSend)), message->bytes},
                                     message->flags & kSolicits, next >= header_.bytes);
    if (answer != Answer::kDone) {
      record_.executed = executed;
      return answer;
    }
    at = next;
    if (at >= header_.bytes) return answer;
    ++executed;
    ++inbox_->expected;  // the caller counts the last
  }
}

std::optional<ShortSend> NeighbourExecution::short_send_at(std::uint32_t at) const {
  ShortSend message;
  const std::uint32_t left = header_.bytes - at;
  if (left < sizeof message) return {};
  std::memcpy(&message, payload(at), sizeof message);
  if (short_send_bytes(message.bytes) > left) return {};
  return message;
}

CompletionStatus NeighbourExecution::store(const Sge& sge, std::span<const std::byte> message) {
  if (message.size() > sge.length) return CompletionStatus::kLocalLengthError;
  if (message.empty()) return CompletionStatus::kSuccess;
  memory::Grant<LocalKey>& into = inbox_->into;
  if (into.covers(sge.lkey, sge.address, message.size())) [[likely]] {
    if (store_where_known(sge, message)) [[likely]]
      return CompletionStatus::kSuccess;
    into = {};
  } else if (std::exchange(inbox_->missed, sge.lkey) == sge.lkey) {
    into = memory::grant_local(*qp_.shared->keys, sge.lkey, qp_.pd, memory::Intent::kWrite);
  }
  const auto to = check_part(qp_, sge, 0, message.size(), memory::Intent::kWrite, Hold::kScatter);
  const bool stored = to && memory::store(*to, message) == memory::Fault::kNone;
  Flight::clear(Hold::kScatter);
  return stored ? CompletionStatus::kSuccess : CompletionStatus::kLocalProtectionError;
}

Answer NeighbourExecution::deliver() {
  transport::ReceiveOutcome outcome;
  outcome.byte_count = inbox_->filled;
  outcome.solicited = flagged(kSolicits);
  outcome.source_qp = Qpn(header_.source);
  if (flagged(kHasImmediate)) {
    outcome.has_immediate = true;
    outcome.immediate = header_.immediate;
  } else if (flagged(kInvalidates)) {
    const RemoteKey key(header_.immediate);
    if (!qp_.shared->keys->invalidate(key, qp_.pd, qp_.qpn)) {
      transport::complete_receive(qp_, std::exchange(inbox_->receive, nullptr),
                                  {.status = CompletionStatus::kRemoteInvalidRequest});
      return refuse(Answer::kAccess);
    }
    outcome.has_invalidate = true;
    outcome.invalidated_key = key;
  }
  tell_sender();
  transport::complete_receive(qp_, std::exchange(inbox_->receive, nullptr), outcome);
  return Answer::kDone;
}

Answer NeighbourExecution::notify() {
  if (!take_buffer()) return no_buffer();
  queue::ReceiveWqe* receive = std::exchange(inbox_->receive, nullptr);
  transport::ReceiveOutcome outcome;
  outcome.op = CompletionOp::kReceiveWriteImmediate;
  outcome.byte_count = header_.length;
  outcome.solicited = flagged(kSolicits);
  outcome.has_immediate = true;
  outcome.immediate = header_.immediate;
  outcome.source_qp = Qpn(header_.source);
  tell_sender();
  transport::complete_receive(qp_, receive, outcome);
  return Answer::kDone;
}

std::optional<RemotePart> NeighbourExecution::remote_part(std::uint32_t data) const {
  RemotePart part;
  if (header_.bytes != sizeof part + data) return {};
  std::memcpy(&part, record_.payload, sizeof part);
  return part;
}

std::optional<memory::Place> NeighbourExecution::place(const RemotePart& part, std::uint32_t n,
                                                       Access need) {
  if (!qp_.shared->serves_rdma || !memory_allowed(need)) return {};
  // A reliable operation that begins again before its last part was done is the same one.
  if (inbox_->use == 0 || (flagged(kFirstPart) && !reliable())) inbox_->use = ++qp_.last_served;
  memory::RemoteAccess access{qp_.pd, qp_.qpn, part.address, n, need, inbox_->use};
  if (flagged(kFirstPart) && n < header_.length) {
    access.length = header_.length;
    const auto whole = qp_.shared->keys->check_remote(RemoteKey(part.key), access);
    Flight::clear(Hold::kRemote);
    if (!whole) return {};
    access.length = n;
  }
  const auto found = qp_.shared->keys->check_remote(RemoteKey(part.key), access);
  if (!found) return {};
  return *found;
}

Answer NeighbourExecution::write() {
  if (header_.bytes < sizeof(RemotePart)) return refuse(Answer::kInvalid);
  const auto n = static_cast<std::uint32_t>(header_.bytes - sizeof(RemotePart));
  const auto part = remote_part(n);
  if (!part || n > header_.length) return refuse(Answer::kInvalid);
  const bool notifies = flagged(kLastPart) && flagged(kHasImmediate);
  // Before it touches key or memory: what is deferred is done again, when the program may have
  // seen the bytes already, and have revoked the key.
  if (notifies && !take_buffer()) return no_buffer();
  if (n > 0) {
    const bool rest_of_dropped = !reliable() && !flagged(kFirstPart) && inbox_->use == 0;
    if (rest_of_dropped) return Answer::kDone;
    const auto to = place(*part, n, Access::kRemoteWrite);
    if (!to) return refuse(Answer::kAccess);
    const memory::Fault fault = memory::store(*to, {payload(sizeof(RemotePart)), n});
    Flight::clear(Hold::kRemote);
    if (fault != memory::Fault::kNone) return vanished();
  }
  return notifies ? notify() : Answer::kDone;
}

Answer NeighbourExecution::read() {
  if (header_.bytes < sizeof(RemotePart)) return refuse(Answer::kInvalid);
  const auto n = static_cast<std::uint32_t>(header_.bytes - sizeof(RemotePart));
  const auto part = remote_part(n);
  if (!part || n > header_.length) return refuse(Answer::kInvalid);
  if (n == 0) return Answer::kDone;
  const auto from = place(*part, n, Access::kRemoteRead);
  if (!from) return refuse(Answer::kAccess);
  const memory::Fault fault = memory::load({payload(sizeof(RemotePart)), n}, *from);
  Flight::clear(Hold::kRemote);
  return fault == memory::Fault::kNone ? Answer::kDone : vanished();
}

Answer NeighbourExecution::atomic() {
  const auto part = remote_part(0);
  if (!part || part->address % 8 != 0) return refuse(Answer::kInvalid);
  const auto at = place(*part, 8, need_of_atomic(ask()));
  if (!at) return refuse(Answer::kAccess);
  if (ask() == Ask::kAtomicWrite) {
    const memory::Fault fault = memory::store_word(*at, part->operand);
    Flight::clear(Hold::kRemote);
    return fault == memory::Fault::kNone ? Answer::kDone : vanished();
  }
  const auto old = ask() == Ask::kCompareSwap
                       ? memory::compare_swap(*at, part->compare, part->operand)
                       : memory::fetch_add(*at, part->operand);
  Flight::clear(Hold::kRemote);
  if (!old) return vanished();
  std::memcpy(payload(offsetof(RemotePart, compare)), &*old, sizeof *old);
  return Answer::kDone;
}

Answer NeighbourExecution::send_whole(std::span<const std::byte> message, std::uint8_t flags,
                                      bool last) {
  transport::ReceiveOutcome outcome;
  outcome.byte_count = static_cast<std::uint32_t>(message.size());
  outcome.solicited = (flags & kSolicits) != 0;
  outcome.source_qp = Qpn(header_.source);
  if ((flags & kHasImmediate) != 0) {
    outcome.has_immediate = true;
    outcome.immediate = header_.immediate;
  }
  queue::ReceiveQueue::Single single;
  // A message that was never finished leaves its buffer to the next one.
  if (inbox_->receive == nullptr && transport::take_single(qp_, &single)) [[likely]] {
    outcome.status = store(single.sge, message);
    if (outcome.status == CompletionStatus::kSuccess) [[likely]] {
      if (last) tell_sender();
      transport::complete_receive(qp_, single.wr_id, outcome);
      return Answer::kDone;
    }
    transport::complete_receive(qp_, single.wr_id, {.status = outcome.status});
  } else {
    if (!take_buffer()) return no_buffer();
    queue::ReceiveWqe* receive = std::exchange(inbox_->receive, nullptr);
    outcome.status = scatter(qp_, receive->sges(), 0, message, Hold::kScatter);
    const bool good = outcome.status == CompletionStatus::kSuccess;
    if (good && last) tell_sender();
    transport::complete_receive(
        qp_, receive, good ? outcome : transport::ReceiveOutcome{.status = outcome.status});
    if (good) return Answer::kDone;
  }
  return refuse(answer_of(outcome.status));
}

// Unreliable: whatever is wrong, nothing is said.
void NeighbourExecution::datagram(const Gid& source) {
  DatagramPart part;
  if (header_.bytes < sizeof part) return;
  std::memcpy(&part, record_.payload, sizeof part);
  const auto n = static_cast<std::uint32_t>(header_.bytes - sizeof part);
  if (!qp_.can_receive()) return;
  if (part.qkey != qp_.attributes.qkey.value) {
    qp_.count(obs::Counter::kBadQKey);
    return;
  }
  queue::ReceiveWqe* receive = transport::take_receive(qp_);
  if (receive == nullptr) {
    qp_.count(obs::Counter::kDroppedMessages);
    return;
  }
  network::Flow flow;
  flow.source = source;
  flow.destination = part.destination;
  flow.traffic_class = part.traffic_class;
  flow.hop_limit = part.hop_limit;
  flow.flow_label = part.flow_label;
  const std::size_t headers =
      wire::Bth::kSize + wire::Deth::kSize + (flagged(kHasImmediate) ? wire::Immediate::kSize : 0);
  const transport::Grh grh =
      network::make_grh(flow, headers + n + wire::pad_for(n) + wire::kIcrcSize);
  transport::ReceiveOutcome outcome;
  outcome.status = scatter(qp_, receive->sges(), 0, grh, Hold::kScatter);
  if (outcome.status == CompletionStatus::kSuccess) {
    outcome.status =
        scatter(qp_, receive->sges(), grh.size(), {payload(sizeof part), n}, Hold::kScatter);
  }
  outcome.byte_count = static_cast<std::uint32_t>(n + grh.size());
  outcome.source_qp = Qpn(header_.source);
  outcome.solicited = flagged(kSolicits);
  outcome.has_grh = true;
  outcome.has_immediate = flagged(kHasImmediate);
  outcome.immediate = header_.immediate;
  transport::complete_receive(qp_, receive, outcome);
}

}  // namespace weft::path

#include "path/neighbour_execution.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "network/roce.h"
#include "queue/scatter.h"
#include "queue/xrc_domain.h"

namespace weft::path {
namespace {

using host::RecordHeader;
using memory::Flight;
using memory::Hold;
using queue::QueuePair;
using target::Refusal;

Answer answer_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::kAccess:
      return Answer::kAccess;
    case Refusal::kInvalid:
      return Answer::kInvalid;
    case Refusal::kOperation:
      break;
  }
  return Answer::kOperation;
}

SendOp op_of(Ask ask) {
  switch (ask) {
    case Ask::kCompareSwap:
      return SendOp::kCompareSwap;
    case Ask::kFetchAdd:
      return SendOp::kFetchAdd;
    default:
      return SendOp::kAtomicWrite;
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
  if (header_.length > kMaxMessageBytes) return refuse(Refusal::kInvalid);
  if (qp_.xrc_domain != nullptr && !qp_.xrc_domain->select(qp_, inbox_->srq)) {
    return refuse(Refusal::kInvalid);
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
      return reliable() ? read() : refuse(Refusal::kInvalid);
    case Ask::kCompareSwap:
    case Ask::kFetchAdd:
    case Ask::kAtomicWrite:
      return reliable() ? atomic() : refuse(Refusal::kInvalid);
    default:
      return refuse(Refusal::kInvalid);
  }
}

Answer NeighbourExecution::complain() {
  if (static_cast<Complaint>(header_.immediate) == Complaint::kVanished) {
    qp_.count(obs::Counter::kVanishedMemory);
  }
  target::report(qp_, Refusal::kAccess);
  if (reliable()) fail_queue_pair(qp_);
  return Answer::kDone;
}

Answer NeighbourExecution::refuse(Refusal refusal) {
  inbox_->use = 0;
  target::report(qp_, refusal);
  if (!reliable()) return Answer::kDone;
  fail_queue_pair(qp_);
  return answer_of(refusal);
}

Answer NeighbourExecution::no_buffer() {
  if (reliable()) return Answer::kNotReady;
  qp_.count(obs::Counter::kDroppedMessages);
  return Answer::kDone;
}

Answer NeighbourExecution::choose() {
  const SrqNumber next(header_.immediate);
  if (next != inbox_->srq) {
    target::return_receive(qp_, std::exchange(qp_.path->partial_receive, nullptr));
    inbox_->into = {};  // of another protection domain, perhaps
  }
  inbox_->srq = next;
  return Answer::kDone;
}

Answer NeighbourExecution::send() {
  if (flagged(kFirstPart) && flagged(kLastPart) && !flagged(kInvalidates)) {
    if (header_.bytes != header_.length) return refuse(Refusal::kInvalid);
    return send_whole({payload(0), header_.bytes}, header_.flags, true);
  }
  if (flagged(kFirstPart)) {
    inbox_->filled = 0;
    if (!take_buffer()) return no_buffer();
  } else if (qp_.path->partial_receive == nullptr) {
    // The rest of an unreliable message that nobody took.
    return qp_.service == Service::kReliableConnection ? Answer::kOutOfTurn : Answer::kDone;
  }
  const std::uint32_t n = header_.bytes;
  if (n > header_.length || inbox_->filled > header_.length - n) return refuse(Refusal::kInvalid);
  const CompletionStatus status =
      queue::scatter(qp_, qp_.path->partial_receive->sges(), inbox_->filled, {payload(0), n});
  if (status != CompletionStatus::kSuccess) {
    return refuse(target::refuse_receive(qp_, qp_.path->partial_receive, status));
  }
  inbox_->filled += n;
  return flagged(kLastPart) ? deliver() : Answer::kDone;
}

Answer NeighbourExecution::sends() {
  std::uint8_t executed = 0;
  for (std::uint32_t at = 0;;) {
    const auto message = short_send_at(at);
    if (!message) return refuse(Refusal::kInvalid);
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
  return queue::scatter(qp_, {&sge, 1}, 0, message);
}

target::MessageInfo NeighbourExecution::message_info(std::uint32_t bytes) const {
  return {.bytes = bytes,
          .source_qp = Qpn(header_.source),
          .solicited = flagged(kSolicits),
          .has_immediate = flagged(kHasImmediate),
          .invalidates = flagged(kInvalidates) && !flagged(kHasImmediate),
          .immediate = header_.immediate};
}

Answer NeighbourExecution::deliver() {
  const auto refusal = target::deliver(qp_, qp_.path->partial_receive, message_info(inbox_->filled),
                                       [this] { tell_sender(); });
  return refusal ? refuse(*refusal) : Answer::kDone;
}

Answer NeighbourExecution::notify() {
  if (!take_buffer()) return no_buffer();
  queue::ReceiveWqe* buffer = std::exchange(qp_.path->partial_receive, nullptr);
  tell_sender();
  target::notify(qp_, buffer, message_info(header_.length));
  return Answer::kDone;
}

std::optional<RemotePart> NeighbourExecution::remote_part(std::uint32_t data) const {
  RemotePart part;
  if (header_.bytes != sizeof part + data) return {};
  std::memcpy(&part, record_.payload, sizeof part);
  return part;
}

/// A reliable operation that begins again before its last part was done is the same one.
std::uint64_t NeighbourExecution::use() {
  if (inbox_->use == 0 || (flagged(kFirstPart) && !reliable())) inbox_->use = ++qp_.last_served;
  return inbox_->use;
}

tl::expected<memory::Place, memory::AccessError> NeighbourExecution::place(const RemotePart& part,
                                                                           std::uint32_t n,
                                                                           Access need) {
  return target::open(qp_, {.key = RemoteKey(part.key),
                            .address = part.address,
                            .bytes = n,
                            .request_bytes = flagged(kFirstPart) ? header_.length : n,
                            .need = need,
                            .use = use()});
}

Answer NeighbourExecution::write() {
  if (header_.bytes < sizeof(RemotePart)) return refuse(Refusal::kInvalid);
  const auto n = static_cast<std::uint32_t>(header_.bytes - sizeof(RemotePart));
  const auto part = remote_part(n);
  if (!part || n > header_.length) return refuse(Refusal::kInvalid);
  const bool notifies = flagged(kLastPart) && flagged(kHasImmediate);
  // Before it touches key or memory: what is deferred is done again, when the program may have
  // seen the bytes already, and have revoked the key. An unreliable one is never done again.
  if (notifies && reliable() && !take_buffer()) return no_buffer();
  if (n > 0) {
    const bool rest_of_dropped = !reliable() && !flagged(kFirstPart) && inbox_->use == 0;
    if (rest_of_dropped) return Answer::kDone;
    const Flight::Adopted<Hold::kRemote> flight;
    const auto to = place(*part, n, Access::kRemoteWrite);
    if (!to || !target::store(qp_, *to, {payload(sizeof(RemotePart)), n})) {
      return refuse(Refusal::kAccess);
    }
  }
  return notifies ? notify() : Answer::kDone;
}

Answer NeighbourExecution::read() {
  if (header_.bytes < sizeof(RemotePart)) return refuse(Refusal::kInvalid);
  const auto n = static_cast<std::uint32_t>(header_.bytes - sizeof(RemotePart));
  const auto part = remote_part(n);
  if (!part || n > header_.length) return refuse(Refusal::kInvalid);
  if (n == 0) return Answer::kDone;
  const Flight::Adopted<Hold::kRemote> flight;
  const auto from = place(*part, n, Access::kRemoteRead);
  const bool read = from && target::load(qp_, {payload(sizeof(RemotePart)), n}, *from);
  return read ? Answer::kDone : refuse(Refusal::kAccess);
}

Answer NeighbourExecution::atomic() {
  const auto part = remote_part(0);
  if (!part) return refuse(Refusal::kInvalid);
  const auto original = target::execute(qp_,
                                        {.op = op_of(ask()),
                                         .key = RemoteKey(part->key),
                                         .address = part->address,
                                         .compare = part->compare,
                                         .operand = part->operand},
                                        use());
  if (!original) return refuse(original.error());
  std::memcpy(payload(offsetof(RemotePart, compare)), &*original, sizeof *original);
  return Answer::kDone;
}

Answer NeighbourExecution::send_whole(std::span<const std::byte> message, std::uint8_t flags,
                                      bool last) {
  target::ReceiveOutcome outcome;
  outcome.byte_count = static_cast<std::uint32_t>(message.size());
  outcome.solicited = (flags & kSolicits) != 0;
  outcome.source_qp = Qpn(header_.source);
  if ((flags & kHasImmediate) != 0) {
    outcome.has_immediate = true;
    outcome.immediate = header_.immediate;
  }
  queue::ReceiveQueue::Single single;
  // A message that was never finished leaves its buffer to the next one.
  if (qp_.path->partial_receive == nullptr && target::take_single(qp_, &single)) [[likely]] {
    outcome.status = store(single.sge, message);
    if (outcome.status == CompletionStatus::kSuccess) [[likely]] {
      if (last) tell_sender();
      target::complete_receive(qp_, single.wr_id, outcome);
      return Answer::kDone;
    }
    target::complete_receive(qp_, single.wr_id, {.status = outcome.status});
  } else {
    if (!take_buffer()) return no_buffer();
    queue::ReceiveWqe* receive = std::exchange(qp_.path->partial_receive, nullptr);
    outcome.status = queue::scatter(qp_, receive->sges(), 0, message);
    const bool good = outcome.status == CompletionStatus::kSuccess;
    if (good && last) tell_sender();
    target::complete_receive(qp_, receive,
                             good ? outcome : target::ReceiveOutcome{.status = outcome.status});
    if (good) return Answer::kDone;
  }
  return refuse(target::refusal_of(outcome.status));
}

// Unreliable: whatever is wrong, nothing is said.
void NeighbourExecution::datagram(const Gid& source) {
  DatagramPart part;
  if (header_.bytes < sizeof part) return;
  std::memcpy(&part, record_.payload, sizeof part);
  const auto n = static_cast<std::uint32_t>(header_.bytes - sizeof part);
  if (!qp_.can_receive()) return;
  queue::ReceiveWqe* const buffer = target::take_for_datagram(qp_, QKey(part.qkey));
  if (buffer == nullptr) return;
  network::Flow flow;
  flow.source = source;
  flow.destination = part.destination;
  flow.traffic_class = part.traffic_class;
  flow.hop_limit = part.hop_limit;
  flow.flow_label = part.flow_label;
  target::deliver_datagram(qp_, buffer, message_info(n),
                           network::make_datagram_grh(flow, n, flagged(kHasImmediate)),
                           [&](const queue::ReceiveWqe& into, std::size_t at) {
                             return queue::scatter(qp_, into.sges(), at, {payload(sizeof part), n});
                           });
}

}  // namespace weft::path

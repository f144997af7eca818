#include <algorithm>
#include <cstring>
#include <utility>

#include "base/fast_paths.h"
#include "path/neighbour_initiator.h"

namespace weft::path {
namespace {

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

}  // namespace

template <class Fill>
Step NeighbourInitiator::put_part(QueuePair& qp, SendWqe& wqe, Budget& budget, Ask ask,
                                  std::uint32_t ahead, Fill fill) {
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
  if (!readable) {
    if (!alone(qp)) return Step::kWait;
    static_cast<void>(check_gather(qp, wqe));
    return give_up(qp, CompletionStatus::kLocalProtectionError);
  }
  if (!sent) return Step::kWait;
  budget.bytes -= std::min<std::uint64_t>(n, budget.bytes);
  offset_ += n;
  parts_in_ring_ = !last;
  return last ? under_way() : Step::kMore;
}

Step NeighbourInitiator::send(QueuePair& qp, SendWqe& wqe, Budget& budget) {
  if (offset_ == 0 && qp.sq.tail() - cursor_ > 1 && base::fast_paths.on() &&
      send_several(qp, budget)) {
    return Step::kNext;
  }
  return put_part(qp, wqe, budget, Ask::kSend, 0,
                  [&](host::RecordHeader& header, std::byte*, bool last) {
                    if (last) mark(wqe, header);
                  });
}

std::uint32_t NeighbourInitiator::count_short_sends(QueuePair& qp, std::uint32_t most,
                                                    std::uint32_t* bytes) const {
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

bool NeighbourInitiator::send_several(QueuePair& qp, Budget& budget) {
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

Step NeighbourInitiator::through_ring(QueuePair& qp, SendWqe& wqe, Budget& budget, Ask ask) {
  return put_part(qp, wqe, budget, ask, sizeof(RemotePart),
                  [&](host::RecordHeader& header, std::byte* at, bool last) {
                    const RemotePart part{wqe.rdma.remote.address + offset_,
                                          wqe.rdma.remote.key.value, offset_, 0, 0};
                    std::memcpy(at, &part, sizeof part);
                    if (last) mark(wqe, header);
                  });
}

// ---- answers ----------------------------------------------------------------------------------

void NeighbourInitiator::on_answers(QueuePair& qp, queue::SendGuard guard,
                                    std::span<RingAnswer> answers) {
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

void NeighbourInitiator::on_answer(QueuePair& qp, std::uint32_t sequence, RingAnswer& answer) {
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

std::uint32_t NeighbourInitiator::complete_all_but_one(QueuePair& qp, const RingAnswer& answer) {
  const auto last = static_cast<std::uint8_t>(answer.messages - 1);
  const bool all = answer_in(answer.status) == Answer::kDone || !reliable_;
  const std::uint32_t count = all ? last : std::min(answer.executed, last);
  for (std::uint32_t i = 0; i < count; ++i) complete(qp, qp.sq.front());
  return count;
}

void NeighbourInitiator::complete(QueuePair& qp, const SendWqe& wqe) {
  answered_offset_ = 0;
  waiting_since_ = 0;
  retries_rnr_ = qp.attributes.rnr_retry;
  complete_front(qp, CompletionStatus::kSuccess, wqe.length);
}

bool NeighbourInitiator::take_data(QueuePair& qp, SendWqe& wqe, RingAnswer& answer) {
  if (wqe.op == SendOp::kAtomicWrite) return true;
  if (transport::is_atomic(wqe.op)) {
    return take_home(qp, wqe, 0, std::as_bytes(std::span(&answer.old_value, 1)));
  }
  if (!transport::is_read(wqe.op)) return true;
  const std::uint32_t n = std::min(answer.bytes, wqe.length - answered_offset_);
  const std::uint32_t at = std::exchange(answered_offset_, answered_offset_ + n);
  return take_home(qp, wqe, at, {answer.data.get(), n});
}

}  // namespace weft::path

#include <algorithm>
#include <mutex>
#include <utility>

#include "target/receive.h"
#include "transport/message.h"
#include "transport/rd.h"

namespace weft::transport {
namespace {

using queue::QueuePair;
using Message = RcResponder::Message;
using wire::NakCode;

void owe_verdict(RdResponder& rs, Psn psn, wire::Aeth verdict) {
  rs.refuses = rs.verdict_owed = true;
  rs.verdict_psn = psn;
  rs.verdict = verdict;
}

/// The receiver has to know of a buffer that a part of a message lies in. Its recv_lock is held.
void list_arriving(RdResponder& rs) {
  if (rs.receive != nullptr && rs.listed_at == nullptr) {
    rs.target->arriving.push_back(&rs);
    rs.listed_at = rs.target;
  } else if (rs.receive == nullptr && rs.listed_at != nullptr) {
    std::erase(rs.listed_at->arriving, &rs);
    rs.listed_at = nullptr;
  }
}

void note_interrupted(RdResponder& rs) {
  if (rs.message != Message::kWrite || rs.offset == 0) return;
  auto& all = rs.interrupted;
  if (all.size() == RdResponder::kMostInterrupted) all.erase(all.begin());
  const std::uint64_t begin = rs.write_address;
  all.push_back({rs.receiver, rs.sender, {begin, rs.write_key, rs.write_length}, rs.write_use});
}

void on_resync(RdResponder& rs, QueuePair& context, Psn psn) {
  if (psn.before(rs.stream.expected())) {
    context.count(obs::Counter::kDuplicates);
    return rs.stream.acknowledge_again();
  }
  context.count(obs::Counter::kResyncs);
  note_interrupted(rs);
  abandon_message(rs);
  rs.refuses = rs.verdict_owed = false;
  rs.answers_count = 0;
  rs.read_goes_on = false;
  rs.stream.resync(psn);
}

/// The frame continues the message in work, or begins one.
bool belongs(RdResponder& rs, QueuePair& to, const wire::Packet& packet) {
  if (rs.message == Message::kNone) {
    rs.receiver = &to;
    rs.receiver_epoch = to.epoch.load(std::memory_order_acquire);
    rs.sender = packet.deth.source_qp;
    return true;
  }
  return rs.receiver == &to && rs.sender == packet.deth.source_qp &&
         rs.receiver_epoch == to.epoch.load(std::memory_order_acquire);
}

}  // namespace

void refuse_at(RdResponder& rs, Psn psn, NakCode code) {
  owe_verdict(rs, psn, wire::Aeth::nak(rs.stream.msn(), code));
}

void refuse(RdResponder& rs, NakCode code) { refuse_at(rs, rs.stream.expected(), code); }

void defer(RdResponder& rs, const QueuePair& to) {
  owe_verdict(rs, rs.stream.expected(),
              wire::Aeth::rnr_nak(rs.stream.msn(), to.attributes.min_rnr_timer));
}

std::uint64_t use_of_write(RdResponder& rs, QueuePair& to, const wire::Reth& reth) {
  const auto same = [&](const RdResponder::Interrupted& one) {
    return one.receiver == &to && one.sender == rs.sender && one.reth == reth;
  };
  const auto at = std::ranges::find_if(rs.interrupted, same);
  if (at == rs.interrupted.end()) return ++to.last_served;
  const std::uint64_t use = at->use;
  rs.interrupted.erase(at);
  return use;
}

void stop(RdTarget& target, QueuePair& qp) {
  for (RdResponder* rs : target.arriving) {
    target::return_receive(qp, std::exchange(rs->receive, nullptr));
    rs->listed_at = nullptr;
  }
  for (queue::ReceiveWqe* spare : target.spares) target::return_receive(qp, spare);
  target.arriving.clear();
  target.spares.clear();
}

queue::ReceiveWqe* take_receive(RdTarget& target, QueuePair& qp) {
  if (target.spares.empty()) return target::take_receive(qp);
  queue::ReceiveWqe* const spare = target.spares.back();
  target.spares.pop_back();
  return spare;
}

void abandon_message(RdResponder& rs) {
  if (rs.receiver != nullptr && rs.message == Message::kSend) {
    const std::lock_guard guard(rs.receiver->recv_lock);
    if (rs.listed_at != nullptr) {
      rs.listed_at->spares.push_back(std::exchange(rs.receive, nullptr));
      std::erase(rs.listed_at->arriving, &rs);
      rs.listed_at = nullptr;
    }
  }
  rs.message = Message::kNone;
  rs.offset = 0;
  rs.receiver = nullptr;
}

void start(RdResponder& rs, const QueuePair& context) {
  rs = {};
  rs.heard_from_peer = true;
  start(static_cast<RcResponder&>(rs), context);
  rs.heard_from_peer = true;
}

void on_request(RdResponder& rs, QueuePair& context, QueuePair* to, RdTarget* target,
                const wire::Packet& packet) {
  const Psn psn = packet.bth.psn;
  if (packet.info().operation == wire::Operation::kResync) return on_resync(rs, context, psn);
  if (rs.refuses && !psn.before(rs.verdict_psn)) {
    rs.verdict_owed = true;
    return context.count(obs::Counter::kSequenceGaps);
  }
  switch (rs.stream.on_frame(psn)) {
    case StreamReceiver::Arrival::kExpected:
      break;
    case StreamReceiver::Arrival::kCopy:
      return on_copy(rs, context, packet);
    case StreamReceiver::Arrival::kEarly:
      return context.count(obs::Counter::kSequenceGaps);
    case StreamReceiver::Arrival::kTooLate:
      return;
  }
  if (to == nullptr || !belongs(rs, *to, packet)) {
    context.count(obs::Counter::kRefusedMessages);
    return refuse(rs, NakCode::kInvalidRd);
  }
  rs.target = target;
  serve(rs, context, *to, packet);
  list_arriving(rs);
}

bool next_answer(RdResponder& rs, QueuePair& context, network::OutFrame& frame) {
  if (next_answer(static_cast<RcResponder&>(rs), context, frame)) return true;
  if (!std::exchange(rs.verdict_owed, false)) return false;
  begin_frame(context, rs.verdict_psn, frame);
  frame.headers.bth.opcode = wire::Opcode::kRdAcknowledge;
  frame.headers.aeth = rs.verdict;
  frame.headers.aeth.msn = rs.stream.msn();
  frame.finish();
  if (rs.verdict.kind() == wire::AethKind::kNak) context.count(obs::Counter::kNaksSent);
  return true;
}

void on_fault(RdResponder& rs, QueuePair& context, Psn psn) {
  for (std::uint32_t i = 0; i < rs.answers_count; ++i) rs.answers[i].pending = false;
  context.count(obs::Counter::kRefusedAccesses);
  refuse_at(rs, psn, NakCode::kRemoteAccess);
}

}  // namespace weft::transport

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "memory/flight.h"
#include "queue/scatter.h"
#include "target/message.h"
#include "target/remote_access.h"
#include "transport/gather.h"
#include "transport/message.h"
#include "transport/rc.h"
#include "transport/rd.h"

namespace weft::transport {
namespace {

using queue::QueuePair;
using Message = RcResponder::Message;
using target::Refusal;
using wire::NakCode;

NakCode code_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::kAccess:
      return NakCode::kRemoteAccess;
    case Refusal::kInvalid:
      return NakCode::kInvalidRequest;
    case Refusal::kOperation:
      break;
  }
  return NakCode::kRemoteOperation;
}

RdResponder& of_context(RcResponder& rs) { return static_cast<RdResponder&>(rs); }

RcAnswer& answer_at(const RcResponder& rs, const QueuePair& qp, std::uint32_t i) {
  return rs.answers[(rs.answers_first + i) %
                    std::max<std::uint32_t>(1, qp.attributes.max_dest_rd_atomic)];
}

bool owes_answers(const RcResponder& rs, const QueuePair& qp) {
  for (std::uint32_t i = 0; i < rs.answers_count; ++i) {
    if (answer_at(rs, qp, i).pending) return true;
  }
  return false;
}

void end_message(RcResponder& rs) {
  rs.message = Message::kNone;
  rs.offset = 0;
}

// `qp` is the connection, or the context, to which the frames belong; `to` the queue pair that they
// are for, which a connection is itself.

/// A connection dies of what the peer sent: at once, or when the answers to earlier requests are
/// out, since the peer takes a NAK only behind them. A context goes on when the peer has given the
/// message up.
void refuse(RcResponder& rs, QueuePair& qp, QueuePair& to, Refusal refusal) {
  target::report(to, refusal);
  if (is_context(qp)) return refuse(of_context(rs), code_of(refusal));
  rs.stream.refuse(code_of(refusal));
  if (!owes_answers(rs, qp)) fail_queue_pair(qp);
}

/// An answer could not be given; the later ones are not owed any more.
void break_off(RcResponder& rs, QueuePair& qp, QueuePair& to, Psn psn) {
  for (std::uint32_t i = 0; i < rs.answers_count; ++i) answer_at(rs, qp, i).pending = false;
  if (is_context(qp)) {
    target::report(to, Refusal::kAccess);
    return refuse_at(of_context(rs), psn, NakCode::kRemoteAccess);
  }
  rs.stream.refuse_at(psn, NakCode::kRemoteAccess);
  refuse(rs, qp, to, Refusal::kAccess);
}

void defer(RcResponder& rs, QueuePair& qp, QueuePair& to) {
  to.count(obs::Counter::kRnrNaksSent);
  if (is_context(qp)) return defer(of_context(rs), to);
  rs.stream.defer();
}

queue::ReceiveWqe* take_buffer(RcResponder& rs, const QueuePair& qp, QueuePair& to) {
  return is_context(qp) ? take_receive(*of_context(rs).target, to) : target::take_receive(to);
}

/// The buffer of a write that is refused.
void give_back(RcResponder& rs, const QueuePair& qp, QueuePair& to, queue::ReceiveWqe* buffer) {
  if (is_context(qp)) return of_context(rs).target->spares.push_back(buffer);
  target::complete_receive(to, buffer, {.status = CompletionStatus::kFlushed});
}

/// Adds what a peer reads to the frame, as views; false: it may not, or the memory is gone. The key
/// is kept until the caller has sent the frame.
bool add_read(const QueuePair& to, const RcAnswer& answer, std::uint32_t offset, std::uint32_t n,
              network::OutFrame& frame) {
  if (!target::serves(to, Access::kRemoteRead)) return false;
  const auto place = to.shared->keys->keep_remote(
      answer.key, {to.pd, to.qpn, answer.address + offset, n, Access::kRemoteRead, answer.use});
  return place && add_place(frame, *place, n);
}

/// The frame is taken: the next one is expected.
void accept(RcResponder& rs, const QueuePair& qp, const wire::Packet& packet, bool completes) {
  if (completes) end_message(rs);
  rs.stream.accept(completes, packet.bth.ack_request || acknowledges_each(qp.attributes));
}

/// A message that one frame brings, for a buffer in one piece: it is taken and filled in one step.
/// False: it is not so.
bool on_lone_send(RcResponder& rs, QueuePair& qp, QueuePair& to, const wire::Packet& packet) {
  queue::ReceiveQueue::Single buffer;
  if (is_context(qp) && !of_context(rs).target->spares.empty()) return false;
  if (!target::take_single(to, &buffer)) return false;
  target::ReceiveOutcome outcome;
  outcome.status = queue::scatter(to, {&buffer.sge, 1}, 0, packet.payload);
  if (outcome.status != CompletionStatus::kSuccess) [[unlikely]] {
    target::complete_receive(to, buffer.wr_id, outcome);
    refuse(rs, qp, to, target::refusal_of(outcome.status));
    return true;
  }
  outcome.byte_count = static_cast<std::uint32_t>(packet.payload.size());
  outcome.solicited = packet.bth.solicited;
  outcome.has_immediate = packet.info().has_immediate;
  outcome.immediate = packet.immediate;
  outcome.source_qp = source_of(qp, packet);
  target::complete_receive(to, buffer.wr_id, outcome);
  accept(rs, qp, packet, true);
  return true;
}

void on_send(RcResponder& rs, QueuePair& qp, QueuePair& to, const wire::Packet& packet) {
  const wire::OpcodeInfo& info = packet.info();
  if (info.position == wire::Position::kOnly && !info.has_invalidate &&
      on_lone_send(rs, qp, to, packet)) [[likely]] {
    return;
  }
  if (rs.receive == nullptr) {
    // The queue pair of a context's message may have been reset in the middle.
    if (!info.is_first_or_only()) return refuse(rs, qp, to, Refusal::kOperation);
    rs.receive = take_buffer(rs, qp, to);
    if (rs.receive == nullptr) return defer(rs, qp, to);
    rs.message = Message::kSend;
    rs.offset = 0;
  }
  const std::uint64_t received = std::uint64_t{rs.offset} + packet.payload.size();
  const CompletionStatus status =
      received > kMaxMessageBytes
          ? CompletionStatus::kLocalLengthError
          : queue::scatter(to, rs.receive->sges(), rs.offset, packet.payload);
  if (status != CompletionStatus::kSuccess) {
    return refuse(rs, qp, to, target::refuse_receive(to, rs.receive, status));
  }
  rs.offset = static_cast<std::uint32_t>(received);
  const bool completes = info.is_last_or_only();
  if (completes) {
    if (const auto refusal = target::deliver(to, rs.receive, message_info(qp, packet, rs.offset))) {
      return refuse(rs, qp, to, *refusal);
    }
  }
  accept(rs, qp, packet, completes);
}

/// The announced length binds the sender: a frame may neither exceed it nor end early.
bool write_length_fits(const RcResponder& rs, const wire::Packet& packet) {
  const std::uint64_t received = rs.offset + packet.payload.size();
  return packet.info().is_last_or_only() ? received == rs.write_length : received < rs.write_length;
}

/// Checks the whole range before any byte lands, then stores this frame's part.
bool store_write(RcResponder& rs, QueuePair& to, const wire::Packet& packet) {
  if (rs.write_length == 0) return true;  // nothing is touched: no key is asked for
  const memory::Flight::Adopted<memory::Hold::kRemote> flight;
  const std::size_t n = packet.payload.size();
  const auto place = target::open(
      to, {.key = rs.write_key,
           .address = rs.write_address + rs.offset,
           .bytes = n,
           .request_bytes = rs.offset == 0 ? std::uint64_t{rs.write_length} : std::uint64_t{n},
           .need = Access::kRemoteWrite,
           .use = rs.write_use});
  return place && target::store(to, *place, packet.payload);
}

void on_write(RcResponder& rs, QueuePair& qp, QueuePair& to, const wire::Packet& packet) {
  const wire::OpcodeInfo& info = packet.info();
  if (info.is_first_or_only()) {
    if (packet.reth.length > kMaxMessageBytes) return refuse(rs, qp, to, Refusal::kInvalid);
    rs.write_address = packet.reth.address;
    rs.write_key = packet.reth.key;
    rs.write_length = packet.reth.length;
    rs.write_use =
        is_context(qp) ? use_of_write(of_context(rs), to, packet.reth) : ++to.last_served;
    rs.offset = 0;
  }
  if (!write_length_fits(rs, packet)) return refuse(rs, qp, to, Refusal::kInvalid);
  // A write with immediate takes a receive buffer with its last frame. Without one that frame is
  // deferred before it touches key or memory: a deferred attempt must not use up a one-shot key.
  queue::ReceiveWqe* notified = nullptr;
  if (info.has_immediate) {
    notified = take_buffer(rs, qp, to);
    if (notified == nullptr) return defer(rs, qp, to);
  }
  if (!store_write(rs, to, packet)) {
    if (notified != nullptr) {
      give_back(rs, qp, to, notified);
    }
    return refuse(rs, qp, to, Refusal::kAccess);
  }
  rs.message = Message::kWrite;
  rs.offset += static_cast<std::uint32_t>(packet.payload.size());
  if (notified != nullptr) {
    target::notify(to, notified, message_info(qp, packet, rs.write_length));
  }
  accept(rs, qp, packet, info.is_last_or_only());
}

// ---- reads and atomics ----------------------------------------------------------------------

/// A slot for a new answer; the oldest one that went out makes room, also when it is to go out
/// again: a peer that asks this much further has got it meanwhile. nullptr: the peer has more
/// outstanding than was agreed.
RcAnswer* new_answer(RcResponder& rs, const QueuePair& qp) {
  const std::uint32_t limit = qp.attributes.max_dest_rd_atomic;
  if (limit == 0) return nullptr;
  if (rs.answers_count == limit) {
    if (!answer_at(rs, qp, 0).answered) return nullptr;
    rs.answers_first = static_cast<std::uint8_t>((rs.answers_first + 1) % limit);
    --rs.answers_count;
  }
  RcAnswer& answer = answer_at(rs, qp, rs.answers_count++);
  answer = {};
  return &answer;
}

bool have_answer_ring(RcResponder& rs, const QueuePair& qp) {
  const std::uint32_t limit = qp.attributes.max_dest_rd_atomic;
  if (rs.answers == nullptr && limit > 0) rs.answers.reset(new (std::nothrow) RcAnswer[limit]);
  return rs.answers != nullptr || limit == 0;
}

void on_read(RcResponder& rs, QueuePair& qp, QueuePair& to, const wire::Packet& packet) {
  const wire::Reth& reth = packet.reth;
  if (reth.length > kMaxMessageBytes) return refuse(rs, qp, to, Refusal::kInvalid);
  // Before the key is looked at: a request that is one too many must not use up a one-shot key.
  RcAnswer* answer = new_answer(rs, qp);
  if (answer == nullptr) return refuse(rs, qp, to, Refusal::kInvalid);
  const bool goes_on = rs.read_goes_on && packet.bth.psn == rs.read_psn &&
                       reth.key == rs.read_key && reth.address == rs.read_address;
  const std::uint64_t use = goes_on ? rs.read_use : ++to.last_served;
  if (reth.length > 0) {
    const memory::Flight::Adopted<memory::Hold::kRemote> flight;
    if (!target::open(
            to, {reth.key, reth.address, reth.length, reth.length, Access::kRemoteRead, use})) {
      --rs.answers_count;
      return refuse(rs, qp, to, Refusal::kAccess);
    }
  }
  answer->kind = RcAnswer::Kind::kRead;
  answer->pending = true;
  answer->first_psn = packet.bth.psn;
  answer->frames = frames_of(reth.length, bytes(qp.attributes.path_mtu));
  answer->length = answer->part_end = reth.length;
  answer->key = reth.key;
  answer->address = reth.address;
  answer->use = use;
  answer->target = &to;
  answer->epoch = to.epoch.load(std::memory_order_relaxed);
  rs.stream.accept_for_data(answer->frames);
  answer->msn = rs.stream.msn();
  rs.read_goes_on = !packet.bth.ack_request;
  rs.read_psn = rs.stream.expected();
  rs.read_key = reth.key;
  rs.read_address = reth.address + reth.length;
  rs.read_use = use;
}

void on_atomic(RcResponder& rs, QueuePair& qp, QueuePair& to, const wire::Packet& packet,
               const target::AtomicRequest& request) {
  RcAnswer* answer = new_answer(rs, qp);
  if (answer == nullptr) return refuse(rs, qp, to, Refusal::kInvalid);
  const auto original = target::execute(to, request, ++to.last_served);
  if (!original) {
    --rs.answers_count;
    return refuse(rs, qp, to, original.error());
  }
  // The answer to a write is that of a read of nothing, and is repeated without another store.
  answer->kind =
      request.op == SendOp::kAtomicWrite ? RcAnswer::Kind::kAtomicWrite : RcAnswer::Kind::kAtomic;
  answer->target = &to;
  answer->pending = true;
  answer->first_psn = packet.bth.psn;
  answer->frames = 1;
  answer->result = *original;
  rs.stream.accept_for_data(1);
  answer->msn = rs.stream.msn();
}

void on_fetch(RcResponder& rs, QueuePair& qp, QueuePair& to, const wire::Packet& packet) {
  const wire::AtomicEth& eth = packet.atomic;
  const bool compares = packet.info().operation == wire::Operation::kCompareSwap;
  on_atomic(rs, qp, to, packet,
            {.op = compares ? SendOp::kCompareSwap : SendOp::kFetchAdd,
             .key = eth.key,
             .address = eth.address,
             .compare = eth.compare,
             .operand = eth.swap_or_add});
}

void on_atomic_write(RcResponder& rs, QueuePair& qp, QueuePair& to, const wire::Packet& packet) {
  const wire::Reth& reth = packet.reth;
  std::uint64_t value = 0;
  if (reth.length != sizeof value || packet.payload.size() != sizeof value) {
    return refuse(rs, qp, to, Refusal::kInvalid);
  }
  std::memcpy(&value, packet.payload.data(), sizeof value);
  on_atomic(rs, qp, to, packet,
            {.op = SendOp::kAtomicWrite,
             .key = reth.key,
             .address = reth.address,
             .compare = 0,
             .operand = value});
}

// ---- out of order ---------------------------------------------------------------------------

}  // namespace

/// A frame that came before: sends and writes are acknowledged again, reads are answered again,
/// atomics get the result that they got the first time. Nothing is executed or completed twice.
void on_copy(RcResponder& rs, QueuePair& qp, const wire::Packet& packet) {
  qp.count(obs::Counter::kDuplicates);
  const wire::Operation operation = packet.info().operation;
  if (operation == wire::Operation::kSend || operation == wire::Operation::kWrite) {
    return rs.stream.acknowledge_again();
  }
  for (std::uint32_t i = 0; i < rs.answers_count; ++i) {
    RcAnswer& answer = answer_at(rs, qp, i);
    const std::uint32_t at = packet.bth.psn.distance_from(answer.first_psn);
    if (at >= answer.frames) continue;
    if (operation != wire::Operation::kReadRequest) {
      answer.pending = answer.pending || answer.kind != RcAnswer::Kind::kRead;
      return;
    }
    const std::uint64_t skipped = std::uint64_t{at} * bytes(qp.attributes.path_mtu);
    const bool same = answer.kind == RcAnswer::Kind::kRead && packet.reth.key == answer.key &&
                      packet.reth.address == answer.address + skipped &&
                      packet.reth.length <= answer.length - skipped;
    if (!same) return;  // not a copy of what was asked: nobody is owed an answer
    const auto part_end = static_cast<std::uint32_t>(skipped) + packet.reth.length;
    if (!answer.pending || at <= answer.next_frame) answer.next_frame = answer.part_frame = at;
    answer.part_end = answer.pending ? std::max(answer.part_end, part_end) : part_end;
    answer.pending = true;
    return;
  }
}

namespace {

/// Is this the operation and place in the message that must come now?
bool in_sequence(const RcResponder& rs, const wire::OpcodeInfo& info) {
  const bool starts = info.is_first_or_only();
  switch (rs.message) {
    case Message::kNone:
      return starts;
    case Message::kSend:
      return !starts && info.operation == wire::Operation::kSend;
    case Message::kWrite:
      return !starts && info.operation == wire::Operation::kWrite;
  }
  return false;
}

// ---- answers --------------------------------------------------------------------------------

/// The queue pair that was read still is the one that it was.
bool is_same(const QueuePair& qp, const RcAnswer& answer) {
  return !is_context(qp) || answer.target->epoch.load(std::memory_order_acquire) == answer.epoch;
}

bool next_read_response(RcResponder& rs, QueuePair& qp, RcAnswer& answer,
                        network::OutFrame& frame) {
  QueuePair& to = *answer.target;
  const std::uint32_t mtu = bytes(qp.attributes.path_mtu);
  const std::uint32_t offset = answer.next_frame * mtu;
  const std::uint32_t n = std::min(mtu, answer.part_end - offset);
  const bool last = offset + n == answer.part_end;
  begin_frame(qp, answer.first_psn + answer.next_frame, frame);
  frame.headers.bth.opcode = wire::make_opcode(
      is_context(qp) ? wire::Service::kRd : wire::Service::kRc, wire::Operation::kReadResponse,
      position_of(answer.next_frame == answer.part_frame, last), false, false);
  frame.headers.aeth = wire::Aeth::ack(answer.msn);
  if (n > 0) {
    // Checked again for every frame: the key may have been taken back in the meantime.
    if (!is_same(qp, answer) || !add_read(to, answer, offset, n, frame)) {
      frame.release();
      if (answer.answered) {
        // A late copy of a request that was answered: the peer may have given up the key since, and
        // must not lose the connection over it. If it still waits, it runs out of retries.
        answer.pending = false;
      } else {
        break_off(rs, qp, to, answer.first_psn + answer.next_frame);
      }
      return false;
    }
  }
  frame.finish();
  ++answer.next_frame;
  if (last) {
    answer.pending = false;
    answer.answered = true;
    answer.next_frame = 0;
  }
  return true;
}

/// The same, with the lock of the queue pair that is read. Nothing: the answer is not owed.
[[gnu::noinline]] std::optional<bool> next_read_of_context(RcResponder& rs, QueuePair& qp,
                                                           RcAnswer& answer,
                                                           network::OutFrame& frame) {
  // Not waited for, since memory may be kept.
  const std::unique_lock guard(answer.target->recv_lock, std::try_to_lock);
  if (!guard) {
    qp.shared->scheduler->run_soon(qp);
    return false;
  }
  if (next_read_response(rs, qp, answer, frame)) return true;
  return {};
}

void build_atomic_response(const QueuePair& qp, RcAnswer& answer, network::OutFrame& frame) {
  begin_frame(qp, answer.first_psn, frame);
  frame.headers.bth.opcode = in_service(qp, wire::Opcode::kRcAtomicAcknowledge);
  frame.headers.aeth = wire::Aeth::ack(answer.msn);
  frame.headers.atomic_ack.original = answer.result;
  answer.pending = false;
  answer.answered = true;
}

void build_acknowledge(RcResponder& rs, QueuePair& qp, network::OutFrame& frame) {
  using Owed = StreamReceiver::Owed;
  const auto owed = rs.stream.take_acknowledgement(qp.attributes.min_rnr_timer);
  begin_frame(qp, owed.psn, frame);
  frame.headers.bth.opcode = in_service(qp, wire::Opcode::kRcAcknowledge);
  frame.headers.aeth = owed.aeth;
  if (owed.kind == Owed::kSequenceNak || owed.kind == Owed::kFatalNak) {
    qp.count(obs::Counter::kNaksSent);
  }
  if (owed.kind == Owed::kFatalNak) fail_queue_pair(qp);
}

}  // namespace

void start(RcResponder& rs, const QueuePair& qp) {
  rs = {};
  rs.stream.start(qp.attributes.receive_psn);
}

void on_request(RcResponder& rs, QueuePair& qp, const wire::Packet& packet) {
  if (!qp.can_receive()) return qp.count(obs::Counter::kWrongState);
  switch (rs.stream.on_frame(packet.bth.psn)) {
    case StreamReceiver::Arrival::kExpected:
      break;
    case StreamReceiver::Arrival::kCopy:
      return on_copy(rs, qp, packet);
    case StreamReceiver::Arrival::kEarly:
      return qp.count(obs::Counter::kSequenceGaps);
    case StreamReceiver::Arrival::kTooLate:
      return qp.count(obs::Counter::kWrongState);
  }
  serve(rs, qp, qp, packet);
}

void serve(RcResponder& rs, QueuePair& qp, QueuePair& to, const wire::Packet& packet) {
  const wire::OpcodeInfo& info = packet.info();
  if (!in_sequence(rs, info) ||
      (info.has_payload &&
       !payload_fits(info.position, packet.payload.size(), bytes(qp.attributes.path_mtu)))) {
    return refuse(rs, qp, to, Refusal::kInvalid);
  }
  if (!rs.heard_from_peer) {
    rs.heard_from_peer = true;
    if (qp.state.load(std::memory_order_relaxed) == QpState::kReadyToReceive) {
      qp.shared->events->on_event(qp, queue::QpEvent::kCommEstablished);
    }
  }
  switch (info.operation) {
    case wire::Operation::kSend:
      return on_send(rs, qp, to, packet);
    case wire::Operation::kWrite:
      return on_write(rs, qp, to, packet);
    case wire::Operation::kReadRequest:
      if (have_answer_ring(rs, qp)) on_read(rs, qp, to, packet);
      return;  // without memory for the ring the frame counts as lost: the peer asks again
    case wire::Operation::kCompareSwap:
    case wire::Operation::kFetchAdd:
      if (have_answer_ring(rs, qp)) on_fetch(rs, qp, to, packet);
      return;
    case wire::Operation::kAtomicWrite:
      if (have_answer_ring(rs, qp)) on_atomic_write(rs, qp, to, packet);
      return;
    default:
      return refuse(rs, qp, to, Refusal::kInvalid);
  }
}

bool next_answer(RcResponder& rs, QueuePair& qp, network::OutFrame& frame) {
  for (std::uint32_t i = 0; i < rs.answers_count && qp.can_receive(); ++i) {
    RcAnswer& answer = answer_at(rs, qp, i);
    if (!answer.pending) continue;
    if (answer.kind == RcAnswer::Kind::kAtomic) {
      build_atomic_response(qp, answer, frame);
      return true;
    }
    if (is_context(qp)) [[unlikely]] {
      if (const auto built = next_read_of_context(rs, qp, answer, frame)) return *built;
    } else if (next_read_response(rs, qp, answer, frame)) {
      return true;
    }
  }
  if (!rs.stream.owes()) return false;
  build_acknowledge(rs, qp, frame);
  return true;
}

bool owes_only_ack(const RcResponder& rs, const QueuePair& qp) {
  return rs.stream.owes_ack() && !owes_answers(rs, qp);
}

void acknowledge_all(RcResponder& rs, const QueuePair& qp) {
  if (qp.can_receive()) rs.stream.acknowledge_all();
}

bool owes_nothing(const RcResponder& rs, const QueuePair& qp) {
  return !rs.stream.owes() && !owes_answers(rs, qp);
}

void on_fault(RcResponder& rs, QueuePair& qp, Psn psn) {
  if (qp.can_receive()) return break_off(rs, qp, qp, psn);
  // The NAK that ended the queue pair was to leave behind this frame, and did not either: the peer
  // gets one for this frame.
  rs.stream.refuse_at(psn, NakCode::kRemoteAccess);
}

void stop(RcResponder& rs, QueuePair& qp) {
  target::return_receive(qp, std::exchange(rs.receive, nullptr));
  rs.message = Message::kNone;
}

}  // namespace weft::transport

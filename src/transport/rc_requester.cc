#include <algorithm>

#include "base/assert.h"
#include "memory/flight.h"
#include "queue/scatter.h"
#include "transport/gather.h"
#include "transport/message.h"
#include "transport/rc.h"
#include "transport/rc_stream.h"
#include "transport/rd.h"
#include "transport/timing.h"

namespace weft::transport {
namespace {

using queue::QueuePair;
using queue::SendWqe;

/// How long a port that took no more is left alone.
constexpr Nanoseconds kBusyPause_ns = 50'000;
/// Requests up to this size wait for others, up to so many.
constexpr std::uint32_t kGatheredBytes = 1024;
constexpr std::uint32_t kMostGathered = 32;
/// Bytes of a long message that are worth a call of their own.
constexpr std::uint32_t kGatheredRun = 32 << 10;

std::uint32_t psn_count(const SendWqe& wqe, std::uint32_t mtu) {
  return is_atomic(wqe.op) ? 1 : frames_of(wqe.length, mtu);
}

RdRequester& of_context(RcRequester& rq) { return static_cast<RdRequester&>(rq); }

/// The front element has been executed.
void done_front(RcRequester& rq, QueuePair& qp) {
  if (is_context(qp)) [[unlikely]]
    return finish_front(of_context(rq), qp, CompletionStatus::kSuccess);
  complete_front(qp, CompletionStatus::kSuccess, qp.sq.front().length);
}

/// Fails the front element with `status`; the rest is flushed by the scheduler.
void fail_front(RcRequester& rq, QueuePair& qp, CompletionStatus status) {
  if (is_context(qp)) return fail_context(of_context(rq), qp, status);
  rq.stream.stop_timers();
  if (!qp.sq.empty()) complete_front(qp, status, 0);
  fail_queue_pair(qp);
}

/// Completes the elements at the front that are finished by themselves: local work, which waits
/// here for its turn, and what failed before it was all sent.
void retire_finished(RcRequester& rq, QueuePair& qp) {
  if (is_context(qp)) return;  // when a thread is next about to send: give_up_front()
  while (!qp.sq.empty() && qp.sq.front().finished) {
    const CompletionStatus status = qp.sq.front().status;
    if (status != CompletionStatus::kSuccess) return fail_front(rq, qp, status);
    if (rq.cursor == qp.sq.head()) ++rq.cursor;  // a go-back had not come so far yet
    complete_front(qp, CompletionStatus::kSuccess, 0);
  }
}

/// Transmission starts again at the oldest unacknowledged frame. Reads before it are complete, so
/// none is outstanding any more.
void go_back(RcRequester& rq, QueuePair& qp) {
  rq.cursor = qp.sq.head();
  rq.offset = 0;
  rq.reads_outstanding = 0;
  rq.delay_until = kNever;  // the delay that the cursor stood on is reached again later
  if (!qp.sq.empty() && qp.sq.front().started && !is_local(qp.sq.front().op)) {
    rq.offset = rq.stream.unacked().distance_from(qp.sq.front().first_psn) * mtu_of(qp);
  }
  if (is_context(qp)) of_context(rq).resync_due = true;
  qp.count(obs::Counter::kRetransmissions);
}

/// Does what the stream says; `failure`: if it gives up.
void act(RcRequester& rq, QueuePair& qp, StreamSender::Action action, CompletionStatus failure) {
  switch (action) {
    case StreamSender::Action::kNone:
      return;
    case StreamSender::Action::kGoBack:
    case StreamSender::Action::kTimeout:
      return go_back(rq, qp);
    case StreamSender::Action::kGiveUp:
      return fail_front(rq, qp, failure);
  }
}

void on_gap(RcRequester& rq, QueuePair& qp) {
  act(rq, qp, rq.stream.on_gap(), CompletionStatus::kRetryExceeded);
}

/// The peer has everything before `upto`, and that is new.
void on_progress(RcRequester& rq, QueuePair& qp, Psn upto, Nanoseconds now) {
  rq.stream.on_progress(upto, settings_of(qp), now);
  retire_finished(rq, qp);
}

/// Acknowledges every frame before `upto`. Stops at a read or atomic whose data has not come:
/// false means that such an answer was lost. `upto` lies in [unacked, sent].
bool acknowledge_before(RcRequester& rq, QueuePair& qp, Psn upto, Nanoseconds now) {
  const std::uint32_t mtu = mtu_of(qp);
  Psn at = rq.stream.unacked();
  while (at != upto && !qp.sq.empty()) {
    SendWqe& wqe = qp.sq.front();
    if (wqe.finished && !is_context(qp)) {
      retire_finished(rq, qp);
      if (!qp.can_send()) return true;
      continue;
    }
    if (is_answered(wqe.op) || is_local(wqe.op)) break;
    const std::uint32_t left = psn_count(wqe, mtu) - at.distance_from(wqe.first_psn);
    const std::uint32_t step = std::min(left, upto.distance_from(at));
    at += step;
    if (step == left) {
      if (rq.cursor == qp.sq.head()) rq.cursor = qp.sq.head() + 1, rq.offset = 0;
      done_front(rq, qp);
    }
  }
  if (at != rq.stream.unacked()) {
    // A go-back that was under way may now lie behind what is acknowledged.
    if (rq.cursor == qp.sq.head() && !qp.sq.empty() && qp.sq.front().started &&
        !is_local(qp.sq.front().op)) {
      rq.offset = std::max(rq.offset, at.distance_from(qp.sq.front().first_psn) * mtu);
    }
    on_progress(rq, qp, at, now);
  }
  return at == upto;
}

/// The front element's next answer frame was taken: n bytes of it, or an atomic's result.
void answer_taken(RcRequester& rq, QueuePair& qp, Nanoseconds now) {
  SendWqe& wqe = qp.sq.front();
  const std::uint32_t mtu = mtu_of(qp);
  const Psn upto = rq.stream.unacked() + 1;
  const std::uint32_t done = upto.distance_from(wqe.first_psn);
  const bool complete = done == psn_count(wqe, mtu);
  if ((complete || done % kReadChunkFrames == 0) && rq.reads_outstanding > 0) {
    --rq.reads_outstanding;
  }
  if (complete) {
    if (rq.cursor == qp.sq.head()) rq.cursor = qp.sq.head() + 1, rq.offset = 0;
    done_front(rq, qp);
  } else if (rq.cursor == qp.sq.head()) {
    rq.offset = std::max(rq.offset, done * mtu);
  }
  on_progress(rq, qp, upto, now);
}

/// Data that the peer gives for the front element. False: it cannot be put where it belongs.
bool take_data(RcRequester& rq, QueuePair& qp, SendWqe& wqe, std::uint32_t at,
               std::span<const std::byte> data) {
  if (is_context(qp)) [[unlikely]] {
    take_data(of_context(rq), qp, wqe, at, data);
    return true;
  }
  const CompletionStatus status = queue::scatter(qp, wqe.sge_list(), at, data);
  if (status == CompletionStatus::kSuccess) [[likely]]
    return true;
  fail_front(rq, qp, status);
  return false;
}

void on_read_response(RcRequester& rq, QueuePair& qp, const wire::Packet& packet, Nanoseconds now) {
  SendWqe& wqe = qp.sq.front();
  // An atomic write is answered as if it had read nothing.
  if (!is_read(wqe.op) && wqe.op != SendOp::kAtomicWrite) {
    return fail_front(rq, qp, CompletionStatus::kBadResponse);
  }
  const std::uint32_t mtu = mtu_of(qp);
  const std::uint32_t at = rq.stream.unacked().distance_from(wqe.first_psn) * mtu;
  if (packet.payload.size() != std::min(mtu, wqe.length - at)) {
    return fail_front(rq, qp, CompletionStatus::kBadResponse);
  }
  if (!take_data(rq, qp, wqe, at, packet.payload)) return;
  answer_taken(rq, qp, now);
}

void on_atomic_response(RcRequester& rq, QueuePair& qp, const wire::Packet& packet,
                        Nanoseconds now) {
  SendWqe& wqe = qp.sq.front();
  if (!is_atomic(wqe.op) || wqe.op == SendOp::kAtomicWrite) {
    return fail_front(rq, qp, CompletionStatus::kBadResponse);
  }
  const std::uint64_t original = packet.atomic_ack.original;
  if (!take_data(rq, qp, wqe, 0, std::as_bytes(std::span(&original, 1)))) return;
  answer_taken(rq, qp, now);
}

CompletionStatus status_of(wire::NakCode code, bool context) {
  switch (code) {
    case wire::NakCode::kInvalidRequest:
      return CompletionStatus::kRemoteInvalidRequest;
    case wire::NakCode::kRemoteAccess:
      return CompletionStatus::kRemoteAccessError;
    case wire::NakCode::kRemoteOperation:
      return CompletionStatus::kRemoteOperationError;
    case wire::NakCode::kInvalidRd:
      if (context) return CompletionStatus::kRemoteInvalidRdRequest;
      break;
    case wire::NakCode::kPsnSequence:
      break;
  }
  return CompletionStatus::kBadResponse;
}

void on_acknowledge(RcRequester& rq, QueuePair& qp, const wire::Packet& packet, Nanoseconds now) {
  const Psn psn = packet.bth.psn;
  switch (packet.aeth.kind()) {
    case wire::AethKind::kAck:
      // An acknowledgement past a read whose data is missing says that the data was lost.
      if (!acknowledge_before(rq, qp, psn + 1, now) || rq.stream.only_probe_arrived()) {
        on_gap(rq, qp);
      }
      return;
    case wire::AethKind::kRnrNak:
      if (!acknowledge_before(rq, qp, psn, now)) return on_gap(rq, qp);
      if (!qp.can_send()) return;
      if (is_context(qp)) {
        return on_receiver_not_ready(of_context(rq), qp,
                                     now + rnr_timer_ns(packet.aeth.rnr_timer_code()));
      }
      return act(rq, qp,
                 rq.stream.on_receiver_not_ready(rnr_timer_ns(packet.aeth.rnr_timer_code()),
                                                 settings_of(qp), now),
                 CompletionStatus::kRnrRetryExceeded);
    case wire::AethKind::kNak: {
      const bool reached = acknowledge_before(rq, qp, psn, now);
      if (!qp.can_send()) return;
      if (packet.aeth.nak_code() == wire::NakCode::kPsnSequence || !reached) {
        return on_gap(rq, qp);
      }
      const CompletionStatus status = status_of(packet.aeth.nak_code(), is_context(qp));
      return is_context(qp) ? on_verdict(of_context(rq), qp, status) : fail_front(rq, qp, status);
    }
    case wire::AethKind::kReserved:
      qp.count(obs::Counter::kMalformedFrames);
      return;
  }
}

// ---- transmission ---------------------------------------------------------------------------

wire::Service wire_service(const QueuePair& qp) {
  return is_context(qp) ? wire::Service::kRd : wire::Service::kRc;
}

/// Whoever posted the element still stands behind it.
bool may_build(RcRequester& rq, QueuePair& qp, const SendWqe& wqe) {
  return !is_context(qp) || keep_source(of_context(rq), qp, wqe);
}

/// There is another element to transmit.
bool has_next(RcRequester& rq, QueuePair& qp, Nanoseconds now) {
  return rq.cursor != qp.sq.tail() || (is_context(qp) && pull(of_context(rq), qp, now));
}

/// Local elements are executed when they are reached. False: not yet.
bool reach_local(RcRequester& rq, QueuePair& qp, SendWqe& wqe, Nanoseconds now) {
  if (wqe.op == SendOp::kDelay) {
    if (!wqe.started) {
      wqe.started = true;
      wqe.delay_ns += now;  // from here on it says when the delay ends
    }
    rq.delay_until = wqe.delay_ns;
    if (now < rq.delay_until) return false;
    rq.delay_until = kNever;
  } else {
    // An invalidate takes memory away from earlier requests: they have to be complete.
    if (wqe.op == SendOp::kLocalInvalidate && rq.cursor != qp.sq.head()) return false;
    if (memory::Flight::keeps_any()) return false;
    wqe.status = run_local(qp, wqe);
  }
  wqe.finished = true;
  if (wqe.status != CompletionStatus::kSuccess) {
    retire_finished(rq, qp);  // when its turn comes; until then nothing behind it goes out
    return false;
  }
  ++rq.cursor;
  rq.offset = 0;
  retire_finished(rq, qp);
  return true;
}

/// Everything after this frame goes to the next element when the current one is all out.
void advance_cursor(RcRequester& rq, QueuePair& qp, const SendWqe& wqe, std::uint32_t n, Psn behind,
                    Nanoseconds now) {
  rq.offset += n;
  if (rq.offset >= wqe.length) {
    ++rq.cursor;
    rq.offset = 0;
  }
  rq.stream.on_sent(behind, settings_of(qp), now);
}

/// Bytes of the next read request. Requests end at multiples of the chunk, counted from the start
/// of the element, so that the end of each is known when its answer comes.
std::uint32_t read_bytes(const RcRequester& rq, const SendWqe& wqe, std::uint32_t mtu) {
  const std::uint32_t chunk = kReadChunkFrames * mtu;
  return std::min(wqe.length - rq.offset, chunk - rq.offset % chunk);
}

bool emit_read(RcRequester& rq, QueuePair& qp, SendWqe& wqe, Psn psn, Nanoseconds now,
               network::OutFrame& frame) {
  const std::uint32_t mtu = mtu_of(qp);
  const std::uint32_t n = read_bytes(rq, wqe, mtu);
  begin_request(qp, wqe, psn, frame);
  frame.headers.bth.opcode = in_service(qp, wire::Opcode::kRcReadRequest);
  // The answer acknowledges; a request that asks for it says that it is the element's last one.
  frame.headers.bth.ack_request = rq.offset + n == wqe.length;
  frame.headers.reth = {wqe.rdma.remote.address + rq.offset, wqe.rdma.remote.key, n};
  ++rq.reads_outstanding;
  rq.stream.on_data_asked(psn + frames_of(n, mtu));
  advance_cursor(rq, qp, wqe, n, psn + frames_of(n, mtu), now);
  return true;
}

bool emit_atomic(RcRequester& rq, QueuePair& qp, SendWqe& wqe, Psn psn, Nanoseconds now,
                 network::OutFrame& frame) {
  begin_request(qp, wqe, psn, frame);
  frame.headers.bth.ack_request = true;
  if (wqe.op == SendOp::kAtomicWrite) {
    frame.headers.bth.opcode = wire::Opcode::kRcAtomicWrite;
    frame.headers.reth = {wqe.rdma.remote.address, wqe.rdma.remote.key, 8};
    frame.add_inline(std::as_bytes(std::span(&wqe.rdma.operand, 1)));
    frame.finish();
  } else {
    frame.headers.bth.opcode =
        in_service(qp, wqe.op == SendOp::kCompareSwap ? wire::Opcode::kRcCompareSwap
                                                      : wire::Opcode::kRcFetchAdd);
    frame.headers.atomic.address = wqe.rdma.remote.address;
    frame.headers.atomic.key = wqe.rdma.remote.key;
    frame.headers.atomic.swap_or_add = wqe.rdma.operand;
    frame.headers.atomic.compare = wqe.op == SendOp::kCompareSwap ? wqe.rdma.compare : 0;
  }
  ++rq.reads_outstanding;
  rq.stream.on_data_asked(psn + 1);
  advance_cursor(rq, qp, wqe, wqe.length, psn + 1, now);
  return true;
}

bool emit_message(RcRequester& rq, QueuePair& qp, SendWqe& wqe, Psn psn, Nanoseconds now,
                  network::OutFrame& frame) {
  bool last = false;
  const CompletionStatus status =
      build_message_frame(qp, wqe, wire_service(qp), rq.offset, psn, frame, &last);
  if (status != CompletionStatus::kSuccess) {
    // It completes when its turn comes; until then nothing behind it goes out.
    wqe.finished = true;
    wqe.status = status;
    retire_finished(rq, qp);
    return false;
  }
  frame.headers.bth.ack_request =
      rq.stream.asks(psn, last ? end_of(qp, wqe) : StreamSender::Frame::kInside, now);
  advance_cursor(rq, qp, wqe, frame.payload_bytes(), psn + 1, now);
  return true;
}

/// The oldest frame once more, to hear what the peer has. Answers are simply asked for again.
bool emit_probe(RcRequester& rq, QueuePair& qp, network::OutFrame& frame) {
  const SendWqe& wqe = qp.sq.front();
  if (!wqe.started || wqe.finished || is_local(wqe.op)) return false;
  if (is_answered(wqe.op)) {
    rq.stream.resend();
    go_back(rq, qp);
    return false;
  }
  const Psn psn = rq.stream.unacked();
  const std::uint32_t offset = psn.distance_from(wqe.first_psn) * mtu_of(qp);
  bool last = false;
  if (offset > wqe.length || !may_build(rq, qp, wqe) ||
      build_message_frame(qp, wqe, wire_service(qp), offset, psn, frame, &last) !=
          CompletionStatus::kSuccess) {
    return false;  // the memory has gone: that shows when the frame's turn comes
  }
  frame.element = qp.sq.head();
  frame.headers.bth.ack_request = true;
  rq.stream.on_probe_sent();
  qp.count(obs::Counter::kRetransmissions);
  return true;
}

}  // namespace

void start(RcRequester& rq, const QueuePair& qp) {
  rq = {};
  rq.stream.start(qp.attributes.send_psn, mtu_of(qp), settings_of(qp));
  rq.cursor = qp.sq.head();
}

bool next_request(RcRequester& rq, QueuePair& qp, Nanoseconds now, network::OutFrame& frame) {
  if (!qp.can_send() || !rq.stream.may_send(now)) return false;
  if (rq.stream.take_probe() && emit_probe(rq, qp, frame)) return true;
  while (qp.can_send() && has_next(rq, qp, now)) {
    SendWqe& wqe = qp.sq.at(rq.cursor);
    if (wqe.finished) {
      if (wqe.status != CompletionStatus::kSuccess) return false;
      ++rq.cursor;  // local work that a go-back passes again
      continue;
    }
    if (!wqe.started) {
      if (qp.state.load(std::memory_order_relaxed) == QpState::kSendQueueDrained) return false;
      if (has(wqe.flags, SendFlags::kFence) && rq.reads_outstanding > 0) return false;
    }
    if (is_local(wqe.op)) {
      if (!reach_local(rq, qp, wqe, now)) return false;
      continue;
    }
    const std::uint32_t mtu = mtu_of(qp);
    const Psn first = wqe.started ? wqe.first_psn : rq.stream.next();
    const Psn psn = rq.offset == 0 ? first : first + rq.offset / mtu;
    const std::uint32_t frames = is_read(wqe.op) ? frames_of(read_bytes(rq, wqe, mtu), mtu) : 1;
    if (!rq.stream.fits(psn, frames)) return false;
    if (rq.offset != 0 &&
        rq.stream.waits_for_room(psn, (wqe.length - rq.offset) / mtu, kGatheredRun / mtu)) {
      return false;
    }
    if (is_answered(wqe.op) && rq.reads_outstanding >= qp.attributes.max_rd_atomic) return false;
    if (!may_build(rq, qp, wqe)) {
      wqe.finished = true;
      wqe.status = CompletionStatus::kFlushed;
      retire_finished(rq, qp);
      return false;
    }
    if (!wqe.started) {
      wqe.started = true;
      wqe.first_psn = rq.stream.take_numbers(psn_count(wqe, mtu));
    }
    frame.element = rq.cursor;
    if (is_read(wqe.op)) return emit_read(rq, qp, wqe, psn, now, frame);
    if (is_atomic(wqe.op)) return emit_atomic(rq, qp, wqe, psn, now, frame);
    return emit_message(rq, qp, wqe, psn, now, frame);
  }
  return false;
}

bool waits_for_sending(const RcRequester& rq, QueuePair& qp) {
  return memory::Flight::keeps_any() && qp.can_send() && rq.cursor != qp.sq.tail() &&
         is_local(qp.sq.at(rq.cursor).op);
}

void on_response(RcRequester& rq, QueuePair& qp, const wire::Packet& packet, Nanoseconds now) {
  if (!qp.can_send()) return qp.count(obs::Counter::kWrongState);
  const Psn psn = packet.bth.psn;
  if (!rq.stream.is_under_way(psn)) return qp.count(obs::Counter::kStaleAcknowledgements);
  if (packet.info().operation == wire::Operation::kAcknowledge) {
    return on_acknowledge(rq, qp, packet, now);
  }
  // Data from the peer acknowledges everything before it.
  if (!acknowledge_before(rq, qp, psn, now)) return on_gap(rq, qp);
  if (!qp.can_send() || qp.sq.empty()) return;
  if (packet.info().operation == wire::Operation::kReadResponse) {
    on_read_response(rq, qp, packet, now);
  } else {
    on_atomic_response(rq, qp, packet, now);
  }
}

void on_timer(RcRequester& rq, QueuePair& qp, Nanoseconds now) {
  if (!qp.can_send()) return;
  using Action = StreamSender::Action;
  const Action action = rq.stream.on_timer(settings_of(qp), now);
  if (action == Action::kTimeout || action == Action::kGiveUp) qp.count(obs::Counter::kTimeouts);
  act(rq, qp, action, CompletionStatus::kRetryExceeded);
}

void on_busy(RcRequester& rq, QueuePair& qp, std::uint32_t element, Psn psn, std::uint32_t reads,
             Nanoseconds now) {
  if (!qp.can_send() || element - qp.sq.head() >= qp.sq.tail() - qp.sq.head()) return;
  // Something may have sent it back further meanwhile.
  if (rq.cursor - qp.sq.head() < element - qp.sq.head()) return;
  const SendWqe& wqe = qp.sq.at(element);
  if (!wqe.started || wqe.finished || psn.before(rq.stream.unacked())) return;
  const std::uint32_t offset = psn.distance_from(wqe.first_psn) * mtu_of(qp);
  if (rq.cursor == element && rq.offset < offset) return;
  rq.cursor = element;
  rq.offset = offset;
  rq.reads_outstanding -=
      static_cast<std::uint16_t>(std::min<std::uint32_t>(rq.reads_outstanding, reads));
  rq.stream.on_busy(now + kBusyPause_ns);
}

bool may_gather(const RcRequester& rq, QueuePair& qp, bool in_bursts) {
  if (!in_bursts && !rq.stream.awaits_acknowledgement()) return false;
  if (rq.offset != 0 || rq.stream.waits_for_receiver()) return false;
  const std::uint32_t waiting = qp.sq.tail() - rq.cursor;
  if (waiting == 0 || waiting >= kMostGathered) return false;
  const SendWqe& last = qp.sq.at(qp.sq.tail() - 1);
  return last.length <= kGatheredBytes && !is_local(last.op);
}

void on_fault(RcRequester& rq, QueuePair& qp, std::uint32_t element) {
  if (!qp.can_send() || element - qp.sq.head() >= qp.sq.tail() - qp.sq.head()) return;
  SendWqe& wqe = qp.sq.at(element);
  wqe.finished = true;
  wqe.status = CompletionStatus::kLocalProtectionError;
  rq.cursor = element;  // nothing behind it goes out
  rq.offset = 0;
  retire_finished(rq, qp);
}

void stop(RcRequester& rq, QueuePair& qp) {
  rq.cursor = qp.sq.tail();
  rq.offset = 0;
  rq.delay_until = kNever;
  rq.stream.stop();
}

bool drained(const RcRequester& rq) {
  return rq.stream.all_acknowledged() && rq.offset == 0 && rq.delay_until == kNever;
}

Nanoseconds next_deadline(const RcRequester& rq) {
  return std::min(rq.stream.next_deadline(), rq.delay_until);
}

}  // namespace weft::transport

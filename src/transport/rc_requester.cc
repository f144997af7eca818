#include <algorithm>

#include "base/assert.h"
#include "memory/flight.h"
#include "queue/scatter.h"
#include "transport/gather.h"
#include "transport/message.h"
#include "transport/rc.h"
#include "transport/rc_asking.h"
#include "transport/timing.h"

namespace weft::transport {
namespace {

using queue::QueuePair;
using queue::SendWqe;

constexpr std::uint8_t kRetryForEver = 7;
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

void reset_retries(RcRequester& rq, const QueuePair& qp) {
  rq.retries_left = qp.attributes.retry_count;
  rq.rnr_left = qp.attributes.rnr_retry;
}

/// Fails the front element with `status`; the rest is flushed by the scheduler.
void fail_front(RcRequester& rq, QueuePair& qp, CompletionStatus status) {
  rq.ack_deadline = rq.give_up_at = kNever;
  if (!qp.sq.empty()) complete_front(qp, status, 0);
  fail_queue_pair(qp);
}

/// Completes the elements at the front that are finished by themselves: local work, which waits
/// here for its turn, and what failed before it was all sent.
void retire_finished(RcRequester& rq, QueuePair& qp) {
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
  rq.went_back = true;
  rq.probe_due = rq.probing = false;
  rq.timing = false;  // an answer might be to either copy
  if (!qp.sq.empty() && qp.sq.front().started && !is_local(qp.sq.front().op)) {
    rq.offset = rq.unacked.distance_from(qp.sq.front().first_psn) * mtu_of(qp);
  }
  qp.count(obs::Counter::kRetransmissions);
}

/// Frames were lost, there or on the way back; what follows them is on its way again already if
/// this is not the first one to tell.
void on_gap(RcRequester& rq, QueuePair& qp) {
  if (rq.went_back) return;
  rq.window.on_loss();
  go_back(rq, qp);
}

/// Something was acknowledged that was not: the peer is alive, and took the frame for which it may
/// have asked us to wait.
void made_progress(RcRequester& rq, QueuePair& qp, Nanoseconds now) {
  rq.went_back = false;
  rq.phase = RcRequester::Phase::kReady;
  rq.probes = 0;
  rq.probe_due = false;
  if (rq.timing && rq.timed.before(rq.unacked)) {
    rq.timing = false;
    if (rq.timed_twice) {
      rq.window.on_late_answer(now - rq.timed_at);
    } else {
      rq.window.on_round_trip(now - rq.timed_at);
    }
  }
  reset_retries(rq, qp);
  rq.give_up_at = kNever;
  arm_timer(rq, qp, now);
  retire_finished(rq, qp);
}

/// Acknowledges every frame before `upto`. Stops at a read or atomic whose data has not come:
/// false means that such an answer was lost. `upto` lies in [unacked, sent].
bool acknowledge_before(RcRequester& rq, QueuePair& qp, Psn upto, Nanoseconds now) {
  const std::uint32_t mtu = mtu_of(qp);
  const Psn before = rq.unacked;
  bool progress = false;
  while (rq.unacked != upto && !qp.sq.empty()) {
    SendWqe& wqe = qp.sq.front();
    if (wqe.finished) {
      retire_finished(rq, qp);
      if (!qp.can_send()) return true;
      continue;
    }
    if (is_answered(wqe.op) || is_local(wqe.op)) break;
    const std::uint32_t done = rq.unacked.distance_from(wqe.first_psn);
    const std::uint32_t left = psn_count(wqe, mtu) - done;
    const std::uint32_t step = std::min(left, upto.distance_from(rq.unacked));
    rq.unacked += step;
    progress = true;
    if (step == left) {
      if (rq.cursor == qp.sq.head()) rq.cursor = qp.sq.head() + 1, rq.offset = 0;
      complete_front(qp, CompletionStatus::kSuccess, wqe.length);
    }
  }
  if (progress) {
    // A go-back that was under way may now lie behind what is acknowledged.
    if (rq.cursor == qp.sq.head() && !qp.sq.empty() && qp.sq.front().started &&
        !is_local(qp.sq.front().op)) {
      rq.offset = std::max(rq.offset, rq.unacked.distance_from(qp.sq.front().first_psn) * mtu);
    }
    rq.window.on_acknowledged(rq.unacked.distance_from(before), rq.sent.distance_from(before), now);
    made_progress(rq, qp, now);
  }
  return rq.unacked == upto;
}

/// The front element's next answer frame was taken: n bytes of it, or an atomic's result.
void answer_taken(RcRequester& rq, QueuePair& qp, Nanoseconds now) {
  SendWqe& wqe = qp.sq.front();
  const std::uint32_t mtu = mtu_of(qp);
  rq.window.on_acknowledged(1, rq.sent.distance_from(rq.unacked), now);
  ++rq.unacked;
  const std::uint32_t done = rq.unacked.distance_from(wqe.first_psn);
  const bool complete = done == psn_count(wqe, mtu);
  if ((complete || done % kReadChunkFrames == 0) && rq.reads_outstanding > 0) {
    --rq.reads_outstanding;
  }
  if (complete) {
    if (rq.cursor == qp.sq.head()) rq.cursor = qp.sq.head() + 1, rq.offset = 0;
    complete_front(qp, CompletionStatus::kSuccess, wqe.length);
  } else if (rq.cursor == qp.sq.head()) {
    rq.offset = std::max(rq.offset, done * mtu);
  }
  made_progress(rq, qp, now);
}

void on_read_response(RcRequester& rq, QueuePair& qp, const wire::Packet& packet, Nanoseconds now) {
  SendWqe& wqe = qp.sq.front();
  // An atomic write is answered as if it had read nothing.
  if (!is_read(wqe.op) && wqe.op != SendOp::kAtomicWrite) {
    return fail_front(rq, qp, CompletionStatus::kBadResponse);
  }
  const std::uint32_t mtu = mtu_of(qp);
  const std::uint32_t at = rq.unacked.distance_from(wqe.first_psn) * mtu;
  if (packet.payload.size() != std::min(mtu, wqe.length - at)) {
    return fail_front(rq, qp, CompletionStatus::kBadResponse);
  }
  const CompletionStatus status = queue::scatter(qp, wqe.sge_list(), at, packet.payload);
  if (status != CompletionStatus::kSuccess) return fail_front(rq, qp, status);
  answer_taken(rq, qp, now);
}

void on_atomic_response(RcRequester& rq, QueuePair& qp, const wire::Packet& packet,
                        Nanoseconds now) {
  SendWqe& wqe = qp.sq.front();
  if (!is_atomic(wqe.op) || wqe.op == SendOp::kAtomicWrite) {
    return fail_front(rq, qp, CompletionStatus::kBadResponse);
  }
  const std::uint64_t original = packet.atomic_ack.original;
  const CompletionStatus status =
      queue::scatter(qp, wqe.sge_list(), 0, std::as_bytes(std::span(&original, 1)));
  if (status != CompletionStatus::kSuccess) return fail_front(rq, qp, status);
  answer_taken(rq, qp, now);
}

void on_rnr(RcRequester& rq, QueuePair& qp, std::uint8_t timer_code, Nanoseconds now) {
  if (rq.phase == RcRequester::Phase::kRnrWait) return;  // a copy of the one that made us wait
  if (rq.rnr_left == 0) return fail_front(rq, qp, CompletionStatus::kRnrRetryExceeded);
  if (qp.attributes.rnr_retry != kRetryForEver) --rq.rnr_left;
  go_back(rq, qp);
  rq.went_back = false;  // the wait, not this flag, keeps copies out
  rq.phase = RcRequester::Phase::kRnrWait;
  rq.rnr_until = now + rnr_timer_ns(timer_code);
  rq.ack_deadline = rq.give_up_at = kNever;
}

/// The frame that was sent once more is all that the peer has of what is under way: the others,
/// which left before it, are lost.
bool only_probe_arrived(RcRequester& rq) {
  if (!rq.probing || rq.unacked == rq.probed) return false;
  rq.probing = false;
  return rq.unacked == rq.probed + 1 && rq.unacked.before(rq.probed_behind);
}

CompletionStatus status_of(wire::NakCode code) {
  switch (code) {
    case wire::NakCode::kInvalidRequest:
      return CompletionStatus::kRemoteInvalidRequest;
    case wire::NakCode::kRemoteAccess:
      return CompletionStatus::kRemoteAccessError;
    case wire::NakCode::kRemoteOperation:
      return CompletionStatus::kRemoteOperationError;
    case wire::NakCode::kPsnSequence:
    case wire::NakCode::kInvalidRd:
      break;
  }
  return CompletionStatus::kBadResponse;
}

void on_acknowledge(RcRequester& rq, QueuePair& qp, const wire::Packet& packet, Nanoseconds now) {
  const Psn psn = packet.bth.psn;
  switch (packet.aeth.kind()) {
    case wire::AethKind::kAck:
      // An acknowledgement past a read whose data is missing says that the data was lost.
      if (!acknowledge_before(rq, qp, psn + 1, now) || only_probe_arrived(rq)) on_gap(rq, qp);
      return;
    case wire::AethKind::kRnrNak:
      if (acknowledge_before(rq, qp, psn, now)) {
        if (qp.can_send()) on_rnr(rq, qp, packet.aeth.rnr_timer_code(), now);
      } else {
        on_gap(rq, qp);
      }
      return;
    case wire::AethKind::kNak: {
      const bool reached = acknowledge_before(rq, qp, psn, now);
      if (!qp.can_send()) return;
      if (packet.aeth.nak_code() == wire::NakCode::kPsnSequence || !reached) {
        return on_gap(rq, qp);
      }
      return fail_front(rq, qp, status_of(packet.aeth.nak_code()));
    }
    case wire::AethKind::kReserved:
      qp.count(obs::Counter::kMalformedFrames);
      return;
  }
}

// ---- transmission ---------------------------------------------------------------------------

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
  if (rq.sent.before(behind)) rq.sent = behind;
  if (rq.ack_deadline == kNever) arm_timer(rq, qp, now);
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
  begin_frame(qp, psn, frame);
  frame.headers.bth.opcode = wire::Opcode::kRcReadRequest;
  // The answer acknowledges; a request that asks for it says that it is the element's last one.
  frame.headers.bth.ack_request = rq.offset + n == wqe.length;
  frame.headers.reth = {wqe.rdma.remote.address + rq.offset, wqe.rdma.remote.key, n};
  ++rq.reads_outstanding;
  rq.ack_requests.on_ask(psn + frames_of(n, mtu));
  advance_cursor(rq, qp, wqe, n, psn + frames_of(n, mtu), now);
  return true;
}

bool emit_atomic(RcRequester& rq, QueuePair& qp, SendWqe& wqe, Psn psn, Nanoseconds now,
                 network::OutFrame& frame) {
  begin_frame(qp, psn, frame);
  frame.headers.bth.ack_request = true;
  if (wqe.op == SendOp::kAtomicWrite) {
    frame.headers.bth.opcode = wire::Opcode::kRcAtomicWrite;
    frame.headers.reth = {wqe.rdma.remote.address, wqe.rdma.remote.key, 8};
    frame.add_inline(std::as_bytes(std::span(&wqe.rdma.operand, 1)));
    frame.finish();
  } else {
    frame.headers.bth.opcode =
        wqe.op == SendOp::kCompareSwap ? wire::Opcode::kRcCompareSwap : wire::Opcode::kRcFetchAdd;
    frame.headers.atomic.address = wqe.rdma.remote.address;
    frame.headers.atomic.key = wqe.rdma.remote.key;
    frame.headers.atomic.swap_or_add = wqe.rdma.operand;
    frame.headers.atomic.compare = wqe.op == SendOp::kCompareSwap ? wqe.rdma.compare : 0;
  }
  ++rq.reads_outstanding;
  rq.ack_requests.on_ask(psn + 1);
  advance_cursor(rq, qp, wqe, wqe.length, psn + 1, now);
  return true;
}

bool emit_message(RcRequester& rq, QueuePair& qp, SendWqe& wqe, Psn psn, Nanoseconds now,
                  network::OutFrame& frame) {
  bool last = false;
  const CompletionStatus status =
      build_message_frame(qp, wqe, wire::Service::kRc, rq.offset, psn, frame, &last);
  if (status != CompletionStatus::kSuccess) {
    // It completes when its turn comes; until then nothing behind it goes out.
    wqe.finished = true;
    wqe.status = status;
    retire_finished(rq, qp);
    return false;
  }
  frame.headers.bth.ack_request =
      ask_for_acknowledgement(rq, psn, last, last && must_ask(rq, qp, wqe, psn), now);
  advance_cursor(rq, qp, wqe, frame.payload_bytes(), psn + 1, now);
  return true;
}

/// The oldest frame once more, to hear what the peer has. Answers are simply asked for again.
bool emit_probe(RcRequester& rq, QueuePair& qp, network::OutFrame& frame) {
  rq.probe_due = false;
  if (all_acknowledged(rq) || rq.went_back || rq.phase != RcRequester::Phase::kReady) return false;
  const SendWqe& wqe = qp.sq.front();
  if (!wqe.started || wqe.finished || is_local(wqe.op)) return false;
  if (is_answered(wqe.op)) {
    go_back(rq, qp);
    return false;
  }
  const std::uint32_t offset = rq.unacked.distance_from(wqe.first_psn) * mtu_of(qp);
  bool last = false;
  if (offset > wqe.length || build_message_frame(qp, wqe, wire::Service::kRc, offset, rq.unacked,
                                                 frame, &last) != CompletionStatus::kSuccess) {
    return false;  // the memory has gone: that shows when the frame's turn comes
  }
  frame.element = qp.sq.head();
  frame.headers.bth.ack_request = true;
  rq.ack_requests.on_ask(rq.unacked + 1);
  rq.probing = true;
  rq.probed = rq.unacked;
  rq.probed_behind = rq.sent;
  rq.timed_twice = true;  // an answer might be to either copy
  qp.count(obs::Counter::kRetransmissions);
  return true;
}

/// A long message whose window is as large as windows get, and all but full, goes on when there is
/// room for many frames again: they leave in one call. What makes room is on its way.
bool waits_for_room(const RcRequester& rq, Psn psn, std::uint32_t bytes_left, std::uint32_t mtu) {
  const std::uint32_t window = rq.window.frames(), under_way = psn.distance_from(rq.unacked);
  const std::uint32_t worth = std::min(kGatheredRun / mtu, window / 8);
  return window == rq.window.most() && under_way > window - worth && under_way < window &&
         bytes_left / mtu >= worth && !rq.went_back && rq.ack_requests.is_awaited(rq.unacked);
}

}  // namespace

void start(RcRequester& rq, const QueuePair& qp) {
  rq = {};
  rq.next_new = rq.unacked = rq.sent = qp.attributes.send_psn;
  rq.cursor = qp.sq.head();
  rq.ack_requests.start(rq.unacked);
  rq.window.start(mtu_of(qp));
  reset_retries(rq, qp);
}

bool next_request(RcRequester& rq, QueuePair& qp, Nanoseconds now, network::OutFrame& frame) {
  if (now < rq.busy_until) return false;
  rq.busy_until = 0;
  if (rq.probe_due && qp.can_send() && emit_probe(rq, qp, frame)) return true;
  while (qp.can_send() && rq.cursor != qp.sq.tail()) {
    if (rq.phase != RcRequester::Phase::kReady) {
      if (now < rq.rnr_until) return false;
      rq.phase = RcRequester::Phase::kReady;
    }
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
    const Psn first = wqe.started ? wqe.first_psn : rq.next_new;
    const Psn psn = rq.offset == 0 ? first : first + rq.offset / mtu;
    const std::uint32_t frames = is_read(wqe.op) ? frames_of(read_bytes(rq, wqe, mtu), mtu) : 1;
    const std::uint32_t window = std::max(rq.window.frames(), frames);
    if ((psn + frames).distance_from(rq.unacked) > window) return false;
    if (rq.offset != 0 && waits_for_room(rq, psn, wqe.length - rq.offset, mtu)) return false;
    if (is_answered(wqe.op) && rq.reads_outstanding >= qp.attributes.max_rd_atomic) return false;
    if (!wqe.started) {
      wqe.started = true;
      wqe.first_psn = rq.next_new;
      rq.next_new += psn_count(wqe, mtu);
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
  if (psn.distance_from(rq.unacked) >= rq.sent.distance_from(rq.unacked)) {
    return qp.count(obs::Counter::kStaleAcknowledgements);
  }
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
  if (!qp.can_send() || now < rq.ack_deadline) return;
  rq.ack_deadline = kNever;
  if (all_acknowledged(rq)) return;
  if (now < rq.give_up_at) {
    // The last frames, or the word that some were lost, may be lost, or the peer's process sleeps:
    // the oldest frame goes out once more to find out, well before the program's time-out, which
    // alone decides when to give up.
    rq.ack_requests.on_probe(rq.unacked);
    rq.probes = static_cast<std::uint8_t>(std::min(rq.probes + 1, 255));
    if (rq.went_back) {
      go_back(rq, qp);  // what was sent again has been lost again, or what tells of it
    } else {
      rq.probe_due = true;
    }
    arm_timer(rq, qp, now);
    return;
  }
  rq.give_up_at = kNever;
  qp.count(obs::Counter::kTimeouts);
  if (rq.retries_left == 0) return fail_front(rq, qp, CompletionStatus::kRetryExceeded);
  --rq.retries_left;
  rq.window.on_timeout();
  go_back(rq, qp);
}

void on_busy(RcRequester& rq, QueuePair& qp, std::uint32_t element, Psn psn, std::uint32_t reads,
             Nanoseconds now) {
  if (!qp.can_send() || element - qp.sq.head() >= qp.sq.tail() - qp.sq.head()) return;
  // Something may have sent it back further meanwhile.
  if (rq.cursor - qp.sq.head() < element - qp.sq.head()) return;
  const SendWqe& wqe = qp.sq.at(element);
  if (!wqe.started || wqe.finished || psn.before(rq.unacked)) return;
  const std::uint32_t offset = psn.distance_from(wqe.first_psn) * mtu_of(qp);
  if (rq.cursor == element && rq.offset < offset) return;
  rq.cursor = element;
  rq.offset = offset;
  rq.reads_outstanding -=
      static_cast<std::uint16_t>(std::min<std::uint32_t>(rq.reads_outstanding, reads));
  rq.timing = false;
  rq.busy_until = now + kBusyPause_ns;
}

bool may_gather(const RcRequester& rq, QueuePair& qp, bool in_bursts) {
  if (!in_bursts && !rq.ack_requests.is_awaited(rq.unacked)) return false;
  if (rq.offset != 0 || rq.phase != RcRequester::Phase::kReady) return false;
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
  rq.unacked = rq.sent;
  rq.phase = RcRequester::Phase::kReady;
  rq.ack_deadline = rq.give_up_at = rq.delay_until = kNever;
  rq.busy_until = 0;
  rq.probe_due = rq.probing = false;
}

bool drained(const RcRequester& rq) {
  return all_acknowledged(rq) && rq.offset == 0 && rq.delay_until == kNever;
}

Nanoseconds next_deadline(const RcRequester& rq) {
  const Nanoseconds rnr = rq.phase == RcRequester::Phase::kRnrWait ? rq.rnr_until : kNever;
  const Nanoseconds busy = rq.busy_until != 0 ? rq.busy_until : kNever;
  return std::min({rq.ack_deadline, rnr, rq.delay_until, busy});
}

}  // namespace weft::transport

#include <algorithm>

#include "base/assert.h"
#include "memory/flight.h"
#include "queue/scatter.h"
#include "transport/message.h"
#include "transport/rc_stream.h"
#include "transport/rd.h"

namespace weft::transport {
namespace {

using queue::QueuePair;
using queue::Route;
using queue::SendQueue;
using queue::SendWqe;
using Phase = RdRequester::Phase;

/// As the responder counts them: a long read is several.
std::uint32_t requests_of(const SendWqe& wqe, std::uint32_t mtu) {
  return is_read(wqe.op) ? frames_of(wqe.length, kReadChunkFrames * mtu) : 1;
}

/// Nothing goes out but RESYNC until the responder has acknowledged it.
void begin_resync(RdRequester& rq, QueuePair& context) {
  rq.stream.abandon();
  rq.resync_psn = rq.stream.take_numbers(1);
  rq.phase = Phase::kResync;
  rq.resync_due = true;
  rq.cursor = context.sq.tail();
  rq.offset = 0;
  rq.reads_outstanding = 0;
  context.count(obs::Counter::kResyncsSent);
}

/// What is at the front cannot be sent: memory or queue pair have gone. It is given up.
void give_up_front(RdRequester& rq, QueuePair& context) {
  while (rq.phase == Phase::kFlowing && !context.sq.empty() && context.sq.front().finished) {
    // A thread that keeps memory waits for no queue pair: waits_for_sending().
    if (memory::Flight::keeps_any()) return;
    const SendWqe& wqe = context.sq.front();
    // A part of it may have arrived, or all of it and what is behind it: the responder tells.
    if (wqe.started) return begin_resync(rq, context);
    rq.work->finish(wqe, wqe.status);
    if (rq.cursor == context.sq.head()) ++rq.cursor;
    rq.offset = 0;
    context.sq.pop();
  }
}

/// What the responder has executed of what was under way is done; the data of an atomic that went
/// with it is lost, while a read may be done again. Gives how many requests of `extra` are left.
std::uint32_t settle_executed(RdRequester& rq, QueuePair& context, std::uint32_t extra) {
  const std::uint32_t mtu = mtu_of(context);
  for (std::uint32_t i = context.sq.head(); i != context.sq.tail() && extra > 0; ++i) {
    SendWqe& wqe = context.sq.at(i);
    const std::uint32_t n = std::min(extra, requests_of(wqe, mtu));
    extra -= n;
    rq.completed = (rq.completed + n) & kMask24;
    if (is_read(wqe.op)) continue;
    rq.work->finish(wqe, !is_answered(wqe.op) ? CompletionStatus::kSuccess
                         : wqe.finished       ? wqe.status
                                              : CompletionStatus::kRetryExceeded);
    SendQueue::route_of(wqe).source = nullptr;
  }
  return extra;
}

void finish_resync(RdRequester& rq, QueuePair& context, std::uint32_t msn, Nanoseconds now) {
  const std::uint32_t extra = (msn - rq.completed) & kMask24;
  if (settle_executed(rq, context, extra) != 0) {
    return fail_context(rq, context, CompletionStatus::kBadResponse);
  }
  while (!context.sq.empty()) {
    const SendWqe& last = context.sq.at(context.sq.tail() - 1);
    if (last.finished) {
      rq.work->finish(last, last.status);
    } else if (SendQueue::route_of(last).source != nullptr) {
      rq.work->put_back(last);
    }
    context.sq.unpost();
  }
  rq.cursor = context.sq.tail();
  rq.offset = 0;
  rq.reads_outstanding = 0;
  rq.phase = Phase::kFlowing;
  rq.stream.on_progress(rq.resync_psn + 1, settings_of(context), now);
}

bool emit_resync(RdRequester& rq, QueuePair& context, Nanoseconds now, network::OutFrame& frame) {
  if (!rq.resync_due) return false;
  rq.resync_due = false;
  begin_frame(context, rq.resync_psn, frame);
  frame.headers.bth.opcode = wire::Opcode::kRdResync;
  frame.headers.bth.ack_request = true;
  frame.headers.deth = {};
  frame.headers.deth.source_qp = context.qpn;
  frame.element = context.sq.tail();
  frame.finish();
  rq.stream.asks(rq.resync_psn, StreamSender::Frame::kEndsWanted, now);
  rq.stream.on_sent(rq.resync_psn + 1, settings_of(context), now);
  return true;
}

}  // namespace

void start(RdRequester& rq, const QueuePair& context) {
  RdWork* const work = rq.work;
  const bool windowed = rq.windowed;
  rq = {};
  rq.work = work;
  rq.windowed = windowed;
  start(static_cast<RcRequester&>(rq), context);
}

bool pull(RdRequester& rq, QueuePair& context, Nanoseconds now) {
  if (!rq.windowed && !context.sq.empty()) return false;
  // Only what can leave now: until then each queue pair keeps its own.
  if (!rq.stream.fits(rq.stream.next(), 1)) return false;
  return rq.work->pull(context, now);
}

bool keep_source(RdRequester& rq, QueuePair& context, const SendWqe& wqe) {
  const Route& route = SendQueue::route_of(wqe);
  if (route.source == nullptr || !rq.work->keep_source(route)) return false;
  context.pd = route.pd;
  return true;
}

void take_data(RdRequester& rq, QueuePair& context, SendWqe& wqe, std::uint32_t at,
               std::span<const std::byte> data) {
  Route& route = SendQueue::route_of(wqe);
  if (route.source == nullptr || !rq.work->hold_source(route)) return;
  context.pd = route.pd;
  const CompletionStatus status = queue::scatter(context, wqe.sge_list(), at, data);
  memory::Flight::clear(memory::Hold::kSelf);
  if (status == CompletionStatus::kSuccess) return;
  // The rest of the data comes all the same.
  rq.work->finish(wqe, status);
  route.source = nullptr;
}

void finish_front(RdRequester& rq, QueuePair& context, CompletionStatus status) {
  const SendWqe& wqe = context.sq.front();
  rq.completed = (rq.completed + requests_of(wqe, mtu_of(context))) & kMask24;
  if (SendQueue::route_of(wqe).source != nullptr) rq.work->finish(wqe, status);
  context.sq.pop();
}

void on_verdict(RdRequester& rq, QueuePair& context, CompletionStatus status) {
  if (rq.phase != Phase::kFlowing) return;
  if (context.sq.empty() || !context.sq.front().started) return;
  SendWqe& wqe = context.sq.front();
  wqe.finished = true;
  wqe.status = status;
  begin_resync(rq, context);
}

void on_receiver_not_ready(RdRequester& rq, QueuePair& context, Nanoseconds until) {
  if (rq.phase != Phase::kFlowing) return;
  if (context.sq.empty() || !context.sq.front().started) return;
  SendWqe& wqe = context.sq.front();
  if (SendQueue::route_of(wqe).source == nullptr || !rq.work->park(wqe, until)) {
    wqe.finished = true;
    wqe.status = CompletionStatus::kRnrRetryExceeded;
  }
  begin_resync(rq, context);
}

void fail_context(RdRequester& rq, QueuePair& context, CompletionStatus status) {
  rq.stream.stop();
  while (!context.sq.empty()) {
    const SendWqe& wqe = context.sq.front();
    if (SendQueue::route_of(wqe).source != nullptr) {
      rq.work->finish(wqe, wqe.finished ? wqe.status : status);
    }
    context.sq.pop();
  }
  rq.cursor = context.sq.tail();
  rq.offset = 0;
  rq.phase = Phase::kFlowing;
  rq.work->fail_all();
}

bool next_request(RdRequester& rq, QueuePair& context, Nanoseconds now, network::OutFrame& frame) {
  while (rq.phase == Phase::kFlowing) {
    give_up_front(rq, context);
    if (rq.phase != Phase::kFlowing) break;
    if (next_request(static_cast<RcRequester&>(rq), context, now, frame)) return true;
    const bool given_up = !context.sq.empty() && context.sq.front().finished;
    if (!given_up || memory::Flight::keeps_any()) return false;
  }
  if (!context.can_send() || !rq.stream.may_send(now)) return false;
  if (rq.stream.take_probe()) rq.resync_due = true;
  return emit_resync(rq, context, now, frame);
}

bool waits_for_sending(const RdRequester& rq, QueuePair& context) {
  return memory::Flight::keeps_any() && rq.phase == Phase::kFlowing && !context.sq.empty() &&
         context.sq.front().finished;
}

void on_response(RdRequester& rq, QueuePair& context, const wire::Packet& packet, Nanoseconds now) {
  if (rq.phase == Phase::kFlowing) {
    return on_response(static_cast<RcRequester&>(rq), context, packet, now);
  }
  const bool acknowledges = packet.info().operation == wire::Operation::kAcknowledge &&
                            packet.aeth.kind() == wire::AethKind::kAck &&
                            packet.bth.psn == rq.resync_psn && context.can_send() &&
                            rq.stream.is_under_way(rq.resync_psn);
  if (!acknowledges) return context.count(obs::Counter::kStaleAcknowledgements);
  finish_resync(rq, context, packet.aeth.msn, now);
}

}  // namespace weft::transport

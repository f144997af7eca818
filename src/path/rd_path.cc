#include "path/rd_path.h"

#include <algorithm>
#include <utility>

#include "memory/flight.h"
#include "transport/message.h"

namespace weft::path {

using queue::QueuePair;
using queue::SendQueue;
using queue::SendWqe;

void RdPath::Touched::add(QueuePair& qp, Context& context) {
  if (std::find(contexts, contexts + count, &context) != contexts + count) return;
  if (count == kMost) return qp.shared->scheduler->run_soon(context.core);
  contexts[count++] = &context;
}

void RdPath::advance(QueuePair& qp, queue::SendGuard guard, queue::Budget /*budget*/) {
  Touched touched;
  fail_lines_of_dead(qp);
  for (Reach step = Reach::kGoOn;
       step != Reach::kWait && qp.can_send() && cursor_ != qp.sq.tail();) {
    step = reach(qp, touched);
    if (step != Reach::kOpenContext) continue;
    const queue::Route& route = SendQueue::route_of(qp.sq.at(cursor_));
    const Gid local = qp.local_gid, remote = route.destination.gid;
    const Qpn qpn = route.qpn;
    const QueuePairAttributes like = qp.attributes;
    const std::uint32_t epoch = qp.epoch.load(std::memory_order_relaxed);
    guard.unlock();
    Context* const context = contexts_.open(local, remote, qpn, like);
    guard.lock();
    // Another thread may have gone on meanwhile; then this finds nothing to fail.
    if (qp.epoch.load(std::memory_order_relaxed) != epoch) break;
    if (context == nullptr && cursor_ != qp.sq.tail()) {
      SendWqe& wqe = qp.sq.at(cursor_);
      if (!transport::is_local(wqe.op) && SendQueue::route_of(wqe).qpn == qpn) {
        fail_element(wqe, CompletionStatus::kLocalQpOperationError);
        ++cursor_;
      }
    }
  }
  retire(qp);
  guard.unlock();
  for (std::size_t i = 0; i < touched.count; ++i) Contexts::advance(*touched.contexts[i]);
}

RdPath::Reach RdPath::reach(QueuePair& qp, Touched& touched) {
  if (qp.state.load(std::memory_order_relaxed) == QpState::kSendQueueDrained) return Reach::kWait;
  SendWqe& wqe = qp.sq.at(cursor_);
  if (has(wqe.flags, SendFlags::kFence) && reads_ > 0) return Reach::kWait;
  if (transport::is_local(wqe.op)) return reach_local(qp, wqe);
  const queue::Route& route = SendQueue::route_of(wqe);
  Context* const context = contexts_.find(qp.local_gid, route.destination.gid, route.qpn);
  if (context == nullptr) return Reach::kOpenContext;
  if (!append(qp, *context)) {
    if (!context->is_dead()) return Reach::kOpenContext;  // it was being taken down
    fail_element(wqe, CompletionStatus::kRetryExceeded);
  } else {
    wqe.started = true;
    if (transport::is_answered(wqe.op)) ++reads_;
    touched.add(qp, *context);
  }
  ++cursor_;
  return Reach::kGoOn;
}

RdPath::Reach RdPath::reach_local(QueuePair& qp, SendWqe& wqe) {
  if (wqe.op == SendOp::kDelay) {
    const Nanoseconds now = qp.shared->scheduler->now();
    if (!std::exchange(wqe.started, true)) delay_until_ = now + wqe.delay_ns;
    if (now < delay_until_) {
      qp.shared->scheduler->run_at(qp, delay_until_);
      return Reach::kWait;
    }
  } else {
    // An invalidate takes memory away from earlier requests: they have to be complete.
    retire(qp);
    if (wqe.op == SendOp::kLocalInvalidate && cursor_ != qp.sq.head()) return Reach::kWait;
    wqe.status = transport::run_local(qp, wqe);
  }
  wqe.finished = true;
  ++cursor_;
  return Reach::kGoOn;
}

bool RdPath::append(QueuePair& qp, Context& context) {
  Line* const line = line_to(qp, context);
  if (line == nullptr) return false;
  if (line->waiting == 0) {
    line->first = cursor_;
  } else {
    SendQueue::route_of(qp.sq.at(line->last)).index = cursor_;
  }
  line->last = cursor_;
  ++line->waiting;
  if (context.list(*line)) return true;
  --line->waiting;
  fail_waiting(qp, *line);
  return false;
}

Line* RdPath::line_to(QueuePair& qp, Context& context) {
  if (Line* const line = lines_.find(context.core.qpn.value)) return line;
  if (free_.empty()) free_.push_back(all_.emplace_back(std::make_unique<Line>()).get());
  Line* const line = free_.back();
  *line = {.qp = &qp, .context = &context, .rnr_left = qp.attributes.rnr_retry};
  if (!context.add_line(*line)) return nullptr;
  free_.pop_back();
  used_.push_back(line);
  lines_.set(context.core.qpn.value, line);
  return line;
}

void RdPath::release(Line& line) {
  lines_.erase(line.context->core.qpn.value);
  std::erase(used_, &line);
  line.context->remove_line(line);
  free_.push_back(&line);
}

void RdPath::fail_element(SendWqe& wqe, CompletionStatus status) {
  wqe.finished = true;
  wqe.status = status;
}

void RdPath::fail_waiting(QueuePair& qp, Line& line) {
  for (; line.waiting > 0; --line.waiting) {
    SendWqe& wqe = qp.sq.at(line.first);
    line.first = SendQueue::route_of(wqe).index;
    if (transport::is_answered(wqe.op)) --reads_;
    fail_element(wqe, CompletionStatus::kRetryExceeded);
  }
  if (line.taken == 0) release(line);
}

void RdPath::fail_lines_of_dead(QueuePair& qp) {
  for (std::size_t i = used_.size(); i-- > 0;) {
    if (used_[i]->context->is_dead()) fail_waiting(qp, *used_[i]);
  }
}

void RdPath::retire(QueuePair& qp) {
  while (!qp.sq.empty() && qp.sq.head() != cursor_ && qp.sq.front().finished) {
    const SendWqe& wqe = qp.sq.front();
    const bool done = wqe.status == CompletionStatus::kSuccess;
    complete_front(qp, wqe.status, done ? wqe.length : 0);
  }
  const bool draining = qp.state.load(std::memory_order_relaxed) == QpState::kSendQueueDrained;
  if (!draining) {
    told_drained_ = false;
  } else if (!told_drained_ && cursor_ == qp.sq.head() &&
             (qp.sq.empty() || !qp.sq.front().started)) {
    told_drained_ = true;
    qp.shared->events->on_event(qp, queue::QpEvent::kSendQueueDrained);
  }
}

void RdPath::on_done(QueuePair& qp, std::uint32_t index, const Context& context,
                     CompletionStatus status) {
  SendWqe& wqe = qp.sq.at(index);
  fail_element(wqe, status);
  if (transport::is_answered(wqe.op)) --reads_;
  Line* const line = lines_.find(context.core.qpn.value);
  line->rnr_left = qp.attributes.rnr_retry;
  --line->taken;
  if (line->waiting == 0 && line->taken == 0) release(*line);
  retire(qp);
  // A fence, or an invalidate, may have waited for it.
  if (cursor_ != qp.sq.tail()) qp.shared->scheduler->run_soon(qp);
}

void RdPath::put_back(QueuePair& qp, std::uint32_t index, Context& context) {
  Line* const line = lines_.find(context.core.qpn.value);
  SendQueue::route_of(qp.sq.at(index)).index = line->first;
  line->first = index;
  if (line->waiting++ == 0) line->last = index;
  --line->taken;
  if (!context.list(*line)) fail_waiting(qp, *line);
}

bool RdPath::park(const QueuePair& qp, const Context& context, Nanoseconds until) {
  constexpr std::uint8_t kRetryForEver = 7;
  Line* const line = lines_.find(context.core.qpn.value);
  if (line->rnr_left == 0) return false;
  if (qp.attributes.rnr_retry != kRetryForEver) --line->rnr_left;
  line->parked_until = until;
  return true;
}

void RdPath::stop(QueuePair& qp) {
  while (!used_.empty()) release(*used_.back());
  cursor_ = qp.sq.tail();
  reads_ = 0;
  transport::stop(target_, qp);
}

}  // namespace weft::path

#include "path/initiator.h"

#include <algorithm>

#include "path/direct_copy.h"
#include "transport/message.h"
#include "transport/timing.h"

namespace weft::path {
namespace {

constexpr std::uint8_t kRetryForEver = 7;
/// How often a peer that is not ready is looked at again.
constexpr Nanoseconds kPeerRecheck_ns = 1'000'000;

}  // namespace

void Initiator::forget_progress() {
  offset_ = 0;
  started_ = false;
  waiting_since_ = 0;
  not_before_ = 0;
}

Step Initiator::next(const queue::QueuePair& qp) {
  offset_ = 0;
  started_ = false;
  waiting_since_ = 0;
  retries_rnr_ = qp.attributes.rnr_retry;
  return Step::kNext;
}

Step Initiator::done(queue::QueuePair& qp, const queue::SendWqe& wqe) {
  complete_front(qp, CompletionStatus::kSuccess, wqe.length);
  return next(qp);
}

Step Initiator::fail(queue::QueuePair& qp, CompletionStatus status) {
  offset_ = 0;
  started_ = false;
  complete_front(qp, status, 0);
  if (datagram_) {
    retries_rnr_ = qp.attributes.rnr_retry;
    return Step::kNext;
  }
  QpState expected = QpState::kReadyToSend;
  if (!reliable_ && qp.state.compare_exchange_strong(expected, QpState::kSendQueueError,
                                                     std::memory_order_acq_rel)) {
    qp.shared->scheduler->run_soon(qp);
  } else {
    fail_queue_pair(qp);
  }
  return Step::kNext;
}

Step Initiator::complete_dropped(queue::QueuePair& qp, queue::SendWqe& wqe) {
  const CompletionStatus status = check_gather(qp, wqe);
  return status == CompletionStatus::kSuccess ? done(qp, wqe) : fail(qp, status);
}

std::optional<CompletionStatus> Initiator::own_fault(queue::QueuePair& qp,
                                                     const queue::SendWqe& wqe) const {
  if (offset_ != 0 || transport::is_answered(wqe.op)) return {};
  const CompletionStatus status = check_gather(qp, wqe);
  if (status == CompletionStatus::kSuccess) return {};
  return status;
}

Step Initiator::wait_until(queue::QueuePair& qp, Nanoseconds when) {
  not_before_ = when;
  qp.shared->scheduler->run_at(qp, when);
  return Step::kWait;
}

bool Initiator::pauses(queue::QueuePair& qp) {
  if (not_before_ == 0) [[likely]]
    return false;
  if (qp.shared->scheduler->now() < not_before_) {
    wait_until(qp, not_before_);
    return true;
  }
  not_before_ = 0;
  return false;
}

Step Initiator::no_peer(queue::QueuePair& qp, queue::SendWqe& wqe) {
  if (!reliable_) return complete_dropped(qp, wqe);
  const Nanoseconds now = qp.shared->scheduler->now();
  if (waiting_since_ == 0) waiting_since_ = now;
  const Nanoseconds timeout = transport::asked_timeout_ns(qp.attributes.timeout);
  if (timeout != kNever) {
    const Nanoseconds patience = timeout * (qp.attributes.retry_count + 1u);
    if (now - waiting_since_ >= patience) return fail(qp, CompletionStatus::kRetryExceeded);
  }
  return wait_until(qp, now + std::min(timeout, kPeerRecheck_ns));
}

Step Initiator::not_ready(queue::QueuePair& qp, std::uint8_t rnr_timer) {
  if (retries_rnr_ == 0) return fail(qp, CompletionStatus::kRnrRetryExceeded);
  if (qp.attributes.rnr_retry != kRetryForEver) --retries_rnr_;
  return wait_until(qp, qp.shared->scheduler->now() + transport::rnr_timer_ns(rnr_timer));
}

Step Initiator::delay(queue::QueuePair& qp, queue::SendWqe& wqe) {
  if (!started_ && wqe.delay_ns > 0) {
    started_ = true;
    return wait_until(qp, qp.shared->scheduler->now() + wqe.delay_ns);
  }
  return done(qp, wqe);
}

void Initiator::show_key(queue::PeerView& view, const memory::KeyEntry* entry, RemoteKey key,
                         PdId domain) {
  using View = queue::PeerView::Key;
  using memory::KeyEntry;
  view.key = View::kNone;
  if (entry == nullptr) return;
  const std::uint32_t control = entry->control.load(std::memory_order_acquire);
  if ((control & KeyEntry::kTagMask) != (key.value & KeyEntry::kTagMask)) {
    view.key = View::kStale;
  } else {
    view.key = (control & KeyEntry::kRemoteLive) != 0 ? View::kLive : View::kNotLive;
  }
  view.same_domain = entry->pd == domain;
  view.base = entry->base;
  view.length = entry->length;
  view.rights = entry->access;
}

void Initiator::tell_drained(queue::QueuePair& qp) {
  if (qp.state.load(std::memory_order_relaxed) == QpState::kSendQueueDrained && !told_drained_) {
    told_drained_ = true;
    qp.shared->events->on_event(qp, queue::QpEvent::kSendQueueDrained);
  }
}

}  // namespace weft::path

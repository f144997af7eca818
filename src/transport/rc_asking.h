// When a requester asks for an acknowledgement, and how long it waits for one: what the ordinary
// and the quick way of building requests share. Stateless; under the queue pair's send_lock.
#pragma once

#include <algorithm>
#include <cstdint>

#include "queue/queue_pair.h"
#include "transport/rc.h"
#include "transport/timing.h"

namespace weft::transport {

inline std::uint32_t mtu_of(const queue::QueuePair& qp) { return bytes(qp.attributes.path_mtu); }

inline bool all_acknowledged(const RcRequester& rq) { return rq.unacked == rq.sent; }

inline void arm_timer(RcRequester& rq, const queue::QueuePair& qp, Nanoseconds now) {
  const Nanoseconds timeout = ack_timeout_ns(qp.attributes.timeout);
  if (timeout == kNever || all_acknowledged(rq)) {
    rq.ack_deadline = rq.give_up_at = kNever;
    return;
  }
  if (rq.give_up_at == kNever) rq.give_up_at = now + timeout;
  const Nanoseconds early =
      std::min(rq.window.timeout_ns(rq.probes), asked_timeout_ns(qp.attributes.timeout));
  rq.ack_deadline = std::min(now + early, rq.give_up_at);
}

/// Whether the message that ends with this frame has to be acknowledged now.
inline bool must_ask(const RcRequester& rq, const queue::QueuePair& qp, const queue::SendWqe& wqe,
                     Psn psn) {
  const bool repeated = rq.went_back || psn.before(rq.sent);
  const bool queue_fills = 2 * (qp.sq.tail() - qp.sq.head()) >= qp.sq.capacity();
  return wqe.signaled() || wqe.length > AckRequests::kShortBytes || repeated || queue_fills ||
         !rq.window.knows_round_trip() ||
         qp.state.load(std::memory_order_relaxed) != QpState::kReadyToSend;
}

/// Whether the frame asks: because it has to, or because it is time.
inline bool ask_for_acknowledgement(RcRequester& rq, Psn psn, bool last, bool must,
                                    Nanoseconds now) {
  const std::uint32_t window = rq.window.frames();
  const bool window_full = (psn + 1).distance_from(rq.unacked) >= window;
  const std::uint32_t every =
      window < 4 * AckRequests::kEveryFrames
          ? window / 4
          : std::clamp(window / 8, AckRequests::kEveryFrames, AckRequests::kMostEveryFrames);
  if (!must && !window_full && !rq.ack_requests.should_ask(every, last, now)) return false;
  rq.ack_requests.on_ask(psn + 1);
  if (!rq.timing && !rq.went_back && !psn.before(rq.sent)) {
    rq.timing = true;
    rq.timed_twice = false;
    rq.timed = psn;
    rq.timed_at = now;
  }
  return true;
}

}  // namespace weft::transport

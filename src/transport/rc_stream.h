// What a reliable connection tells the sending half of its stream: shared by the two files that
// build requests. Stateless; under the queue pair's send_lock.
#pragma once

#include <cstdint>

#include "queue/queue_pair.h"
#include "transport/stream_sender.h"

namespace weft::transport {

inline std::uint32_t mtu_of(const queue::QueuePair& qp) { return bytes(qp.attributes.path_mtu); }

inline StreamSettings settings_of(const queue::QueuePair& qp) {
  return {qp.attributes.timeout, qp.attributes.retry_count, qp.attributes.rnr_retry};
}

/// Whether somebody waits for the acknowledgement of the message whose last frame this is: the
/// program, for a completion, for room in its send queue, or for the queue to be drained.
inline StreamSender::Frame end_of(const queue::QueuePair& qp, const queue::SendWqe& wqe) {
  const bool queue_fills = 2 * (qp.sq.tail() - qp.sq.head()) >= qp.sq.capacity();
  const bool wanted = wqe.signaled() || wqe.length > AckRequests::kShortBytes || queue_fills ||
                      qp.state.load(std::memory_order_relaxed) != QpState::kReadyToSend;
  return wanted ? StreamSender::Frame::kEndsWanted : StreamSender::Frame::kEnds;
}

}  // namespace weft::transport

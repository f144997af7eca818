#include "transport/uc.h"

#include <utility>

#include "memory/flight.h"
#include "queue/scatter.h"
#include "target/message.h"
#include "target/remote_access.h"
#include "transport/gather.h"
#include "transport/local_work.h"
#include "transport/message.h"

namespace weft::transport {
namespace {

using queue::QueuePair;
using UcMessage = UcResponder::Message;

/// How many frames of a peer may be lost before it is out of step.
constexpr std::uint32_t kStepFrames = 64;

/// The rest of this message is not wanted. A receive buffer that was taken serves the next one.
void skip_message(UcResponder& rs) {
  rs.message = UcMessage::kDropping;
  rs.offset = 0;
}
void drop_message(UcResponder& rs, QueuePair& qp) {
  skip_message(rs);
  qp.count(obs::Counter::kDroppedMessages);
}
/// The same for one that the target refuses.
void refuse(UcResponder& rs, QueuePair& qp, target::Refusal refusal) {
  skip_message(rs);
  target::report(qp, refusal);
}

/// False: this frame belongs to a message that is, or now becomes, dropped.
bool follow_sequence(UcResponder& rs, QueuePair& qp, const wire::Packet& packet) {
  const wire::OpcodeInfo& info = packet.info();
  const bool lost = packet.bth.psn != rs.expected;
  rs.expected = packet.bth.psn + 1;  // the peer's number rules: nothing is sent again
  if (lost) qp.count(obs::Counter::kSequenceGaps);
  if (lost && (rs.message == UcMessage::kSend || rs.message == UcMessage::kWrite)) {
    drop_message(rs, qp);
  }
  if (info.is_first_or_only()) {
    if (rs.message == UcMessage::kSend || rs.message == UcMessage::kWrite) drop_message(rs, qp);
    rs.message = UcMessage::kNone;
    return true;
  }
  if (rs.message == UcMessage::kNone) drop_message(rs, qp);
  const UcMessage wanted =
      info.operation == wire::Operation::kSend ? UcMessage::kSend : UcMessage::kWrite;
  if (rs.message != UcMessage::kDropping && rs.message != wanted) drop_message(rs, qp);
  return rs.message != UcMessage::kDropping;
}

void on_send(UcResponder& rs, QueuePair& qp, const wire::Packet& packet) {
  const wire::OpcodeInfo& info = packet.info();
  if (info.is_first_or_only()) {
    if (rs.receive == nullptr) rs.receive = target::take_receive(qp);
    if (rs.receive == nullptr) return drop_message(rs, qp);
    rs.message = UcMessage::kSend;
    rs.offset = 0;
  }
  const std::uint64_t received = std::uint64_t{rs.offset} + packet.payload.size();
  const CompletionStatus status =
      received > kMaxMessageBytes
          ? CompletionStatus::kLocalLengthError
          : queue::scatter(qp, rs.receive->sges(), rs.offset, packet.payload);
  if (status != CompletionStatus::kSuccess) {
    return refuse(rs, qp, target::refuse_receive(qp, rs.receive, status));
  }
  rs.offset = static_cast<std::uint32_t>(received);
  if (!info.is_last_or_only()) return;
  rs.message = UcMessage::kNone;
  if (const auto refusal = target::deliver(qp, rs.receive, message_info(qp, packet, rs.offset))) {
    refuse(rs, qp, *refusal);
  }
}

bool store_write(UcResponder& rs, QueuePair& qp, const wire::Packet& packet) {
  if (rs.write_length == 0) return true;
  const memory::Flight::Adopted<memory::Hold::kRemote> flight;
  const std::size_t n = packet.payload.size();
  const auto place = target::open(
      qp, {.key = rs.write_key,
           .address = rs.write_address + rs.offset,
           .bytes = n,
           .request_bytes = rs.offset == 0 ? std::uint64_t{rs.write_length} : std::uint64_t{n},
           .need = Access::kRemoteWrite,
           .use = rs.write_use});
  return place && target::store(qp, *place, packet.payload);
}

void on_write(UcResponder& rs, QueuePair& qp, const wire::Packet& packet, Nanoseconds now) {
  const wire::OpcodeInfo& info = packet.info();
  if (info.is_first_or_only()) {
    if (packet.reth.length > kMaxMessageBytes) return drop_message(rs, qp);
    rs.message = UcMessage::kWrite;
    rs.offset = 0;
    rs.write_address = packet.reth.address;
    rs.write_key = packet.reth.key;
    rs.write_length = packet.reth.length;
    rs.write_use = ++qp.last_served;
  }
  const std::uint64_t received = std::uint64_t{rs.offset} + packet.payload.size();
  const bool last = info.is_last_or_only();
  if (last ? received != rs.write_length : received >= rs.write_length) {
    return drop_message(rs, qp);
  }
  if (!store_write(rs, qp, packet)) {
    rs.guesses.count(now);
    return refuse(rs, qp, target::Refusal::kAccess);
  }
  if (rs.write_length > 0) rs.in_step = packet.bth.psn + 1;
  rs.offset = static_cast<std::uint32_t>(received);
  if (!last) return;
  rs.message = UcMessage::kNone;
  if (!info.has_immediate) return;
  queue::ReceiveWqe* buffer =
      rs.receive != nullptr ? std::exchange(rs.receive, nullptr) : target::take_receive(qp);
  if (buffer == nullptr) return qp.count(obs::Counter::kDroppedMessages);
  target::notify(qp, buffer, message_info(qp, packet, rs.write_length));
}

}  // namespace

void start(UcRequester& rq, const QueuePair& qp) {
  rq = {};
  rq.next_new = qp.attributes.send_psn;
  rq.cursor = qp.sq.head();
}

bool next_request(UcRequester& rq, QueuePair& qp, Nanoseconds now, network::OutFrame& frame) {
  while (may_transmit(qp, rq.cursor, now, rq.delay_until)) {
    queue::SendWqe& wqe = qp.sq.at(rq.cursor);
    frame.element = rq.cursor;
    wqe.started = true;
    bool last = false;
    const CompletionStatus status =
        build_message_frame(qp, wqe, wire::Service::kUc, rq.offset, rq.next_new, frame, &last);
    if (status != CompletionStatus::kSuccess) {
      wqe.finished = true;  // fails when everything before it is out
      wqe.status = status;
      if (rq.cursor == qp.sq.head()) stop_send_queue(qp, status);
      return false;
    }
    ++rq.next_new;
    rq.offset = last ? 0 : rq.offset + frame.payload_bytes();
    if (last) ++rq.cursor;
    return true;
  }
  return false;
}

void on_sent(UcRequester& rq, QueuePair& qp) { retire_sent(qp, rq.cursor); }

void on_fault(UcRequester& rq, QueuePair& qp, std::uint32_t element) {
  rq.cursor = element;
  rq.offset = 0;
  fail_element(qp, element);
}

void stop(UcRequester& rq, QueuePair& qp) {
  rq.cursor = qp.sq.tail();
  rq.offset = 0;
  rq.delay_until = kNever;
}

void start(UcResponder& rs, const QueuePair& qp) {
  rs = {};
  rs.expected = rs.in_step = qp.attributes.receive_psn;
}

void on_request(UcResponder& rs, QueuePair& qp, const wire::Packet& packet, Nanoseconds now) {
  if (!qp.can_receive()) return qp.count(obs::Counter::kWrongState);
  const bool writes = packet.info().operation == wire::Operation::kWrite;
  const bool in_step = packet.bth.psn.distance_from(rs.in_step) < kStepFrames;
  if (writes && !in_step && rs.guesses.spent(now)) {
    return qp.count(obs::Counter::kLimitedAccesses);
  }
  if (!writes && in_step) rs.in_step = packet.bth.psn + 1;
  if (!follow_sequence(rs, qp, packet)) return;
  if (!payload_fits(packet.info().position, packet.payload.size(), bytes(qp.attributes.path_mtu))) {
    return drop_message(rs, qp);
  }
  if (writes) {
    on_write(rs, qp, packet, now);
  } else {
    on_send(rs, qp, packet);
  }
}

void stop(UcResponder& rs, QueuePair& qp) {
  target::return_receive(qp, std::exchange(rs.receive, nullptr));
  rs.message = UcMessage::kNone;
}

}  // namespace weft::transport

#include "transport/ud.h"

#include "transport/gather.h"
#include "transport/local_work.h"
#include "transport/message.h"

namespace weft::transport {

using queue::QueuePair;

void start(UdRequester& rq, const QueuePair& qp) {
  rq = {};
  rq.next_new = qp.attributes.send_psn;
  rq.cursor = qp.sq.head();
}

bool next_request(UdRequester& rq, QueuePair& qp, Nanoseconds now, OutFrame& frame) {
  while (may_transmit(qp, rq.cursor, now, rq.delay_until)) {
    queue::SendWqe& wqe = qp.sq.at(rq.cursor);
    frame.element = rq.cursor;
    frame.headers.bth = {};
    frame.headers.bth.opcode = wqe.op == SendOp::kSendImmediate
                                   ? wire::Opcode::kUdSendOnlyWithImmediate
                                   : wire::Opcode::kUdSendOnly;
    frame.headers.bth.dest_qp = wqe.datagram.qpn;
    frame.headers.bth.psn = rq.next_new;
    frame.headers.bth.solicited = has(wqe.flags, SendFlags::kSolicited);
    frame.headers.deth.qkey = wqe.datagram.qkey;
    frame.headers.deth.source_qp = qp.qpn;
    frame.headers.immediate = wqe.immediate;
    frame.destination = wqe.datagram.destination;
    const CompletionStatus status = gather(qp, wqe, 0, wqe.length, frame);
    if (status != CompletionStatus::kSuccess) {
      frame.release();
      wqe.finished = true;
      wqe.status = status;
      if (rq.cursor == qp.sq.head()) stop_send_queue(qp, status);
      return false;
    }
    frame.finish();
    ++rq.next_new;
    ++rq.cursor;
    return true;
  }
  return false;
}

void on_sent(UdRequester& rq, QueuePair& qp) { retire_sent(qp, rq.cursor); }

void on_fault(UdRequester& rq, QueuePair& qp, std::uint32_t element) {
  rq.cursor = element;
  fail_element(qp, element);
}

void stop(UdRequester& rq, QueuePair& qp) {
  rq.cursor = qp.sq.tail();
  rq.delay_until = kNever;
}

void on_datagram(QueuePair& qp, const wire::Packet& packet, const Grh& grh) {
  if (!qp.can_receive()) return qp.count(obs::Counter::kWrongState);
  if (packet.deth.qkey != qp.attributes.qkey) return qp.count(obs::Counter::kBadQKey);
  queue::ReceiveWqe* wqe = take_receive(qp);
  if (wqe == nullptr) return qp.count(obs::Counter::kDroppedMessages);
  CompletionStatus status = scatter(qp, wqe->sges(), 0, grh);
  if (status == CompletionStatus::kSuccess) {
    status = scatter(qp, wqe->sges(), kGrhBytes, packet.payload);
  }
  ReceiveOutcome outcome;
  outcome.status = status;
  outcome.byte_count = static_cast<std::uint32_t>(kGrhBytes + packet.payload.size());
  outcome.source_qp = packet.deth.source_qp;
  outcome.solicited = packet.bth.solicited;
  outcome.has_grh = true;
  outcome.has_immediate = packet.info().has_immediate;
  outcome.immediate = packet.immediate;
  complete_receive(qp, wqe, outcome);
}

}  // namespace weft::transport

#include "transport/ud.h"

#include "queue/scatter.h"
#include "target/message.h"
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

bool next_request(UdRequester& rq, QueuePair& qp, Nanoseconds now, network::OutFrame& frame) {
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

void on_datagram(QueuePair& qp, const wire::Packet& packet, const wire::GrhBytes& grh) {
  if (!qp.can_receive()) return qp.count(obs::Counter::kWrongState);
  queue::ReceiveWqe* const buffer = target::take_for_datagram(qp, packet.deth.qkey);
  if (buffer == nullptr) return;
  const target::MessageInfo message{.bytes = static_cast<std::uint32_t>(packet.payload.size()),
                                    .source_qp = packet.deth.source_qp,
                                    .solicited = packet.bth.solicited,
                                    .has_immediate = packet.info().has_immediate,
                                    .immediate = packet.immediate};
  target::deliver_datagram(qp, buffer, message, grh,
                           [&](const queue::ReceiveWqe& into, std::size_t at) {
                             return queue::scatter(qp, into.sges(), at, packet.payload);
                           });
}

}  // namespace weft::transport

// Small facts about messages and frames that all services share. Stateless.
#pragma once

#include <cstdint>

#include "network/frame.h"
#include "queue/queue_pair.h"
#include "target/message.h"
#include "wire/opcode.h"
#include "wire/packet.h"

namespace weft::transport {

/// Frames of a message: a zero-length one still takes a frame.
constexpr std::uint32_t frames_of(std::uint32_t length, std::uint32_t mtu) {
  return length <= mtu ? 1 : (length - 1) / mtu + 1;
}

constexpr wire::Position position_of(bool first, bool last) {
  if (first) return last ? wire::Position::kOnly : wire::Position::kFirst;
  return last ? wire::Position::kLast : wire::Position::kMiddle;
}

/// Operations that never leave the queue pair.
constexpr bool is_local(SendOp op) { return op >= SendOp::kBind; }
constexpr bool is_read(SendOp op) { return op == SendOp::kRead; }
constexpr bool is_atomic(SendOp op) {
  return op >= SendOp::kCompareSwap && op <= SendOp::kAtomicWrite;
}
/// Operations that are finished by an answer of their own, not by an acknowledgement.
constexpr bool is_answered(SendOp op) { return is_read(op) || is_atomic(op); }

/// A frame for a requester.
inline bool is_response(const wire::Packet& packet) {
  const wire::Operation operation = packet.info().operation;
  return operation == wire::Operation::kAcknowledge ||
         operation == wire::Operation::kReadResponse ||
         operation == wire::Operation::kAtomicAcknowledge;
}

/// First and Middle carry exactly the path MTU, Last something, Only anything up to it.
constexpr bool payload_fits(wire::Position position, std::size_t payload, std::uint32_t mtu) {
  switch (position) {
    case wire::Position::kFirst:
    case wire::Position::kMiddle:
      return payload == mtu;
    case wire::Position::kLast:
      return payload >= 1 && payload <= mtu;
    case wire::Position::kOnly:
      return payload <= mtu;
  }
  return false;
}

/// One end of an end-to-end context, not of a connection: its messages name their queue pairs
/// (rd.h).
inline bool is_context(const queue::QueuePair& qp) {
  return qp.service == Service::kReliableDatagram;
}
/// An opcode of the reliable connection, in the service of the stream.
inline wire::Opcode in_service(const queue::QueuePair& qp, wire::Opcode rc) {
  constexpr unsigned kRd = static_cast<unsigned>(wire::Opcode::kRdSendFirst);
  static_assert(static_cast<unsigned>(wire::Opcode::kRcSendFirst) == 0 &&
                (static_cast<unsigned>(wire::Opcode::kRcFetchAdd) | kRd) ==
                    static_cast<unsigned>(wire::Opcode::kRdFetchAdd));
  return static_cast<wire::Opcode>(static_cast<unsigned>(rc) | (is_context(qp) ? kRd : 0));
}

/// Who sent a message that a connection or a context brought.
inline Qpn source_of(const queue::QueuePair& qp, const wire::Packet& packet) {
  return is_context(qp) ? packet.deth.source_qp : qp.attributes.remote_qpn;
}

/// What the last frame of a message says of it, except for those of the unreliable datagram.
inline target::MessageInfo message_info(const queue::QueuePair& qp, const wire::Packet& last,
                                        std::uint32_t bytes) {
  const wire::OpcodeInfo& info = last.info();
  return {.bytes = bytes,
          .source_qp = source_of(qp, last),
          .solicited = last.bth.solicited,
          .has_immediate = info.has_immediate,
          .invalidates = info.has_invalidate,
          .immediate = info.has_invalidate ? last.invalidate_key.value : last.immediate};
}

/// Builds the frame that carries message bytes from `offset` on: a send or a write of a connected
/// service, with the headers that its place in the message asks for. Anything but kSuccess is the
/// status with which the element fails. `last` tells whether the frame ends the message.
CompletionStatus build_message_frame(queue::QueuePair& qp, const queue::SendWqe& wqe,
                                     wire::Service service, std::uint32_t offset, Psn psn,
                                     network::OutFrame& frame, bool* last);

/// Starts the headers of any frame of a connected service, or of a context's answer.
inline void begin_frame(const queue::QueuePair& qp, Psn psn, network::OutFrame& frame) {
  frame.headers.bth = {};
  frame.headers.bth.dest_qp = qp.attributes.remote_qpn;
  frame.headers.bth.psn = psn;
  frame.headers.rdeth = {EecNumber(qp.attributes.remote_qpn.value)};
}

/// The same for a request; one that a context carries is for the queue pair that it names.
inline void begin_request(const queue::QueuePair& qp, const queue::SendWqe& wqe, Psn psn,
                          network::OutFrame& frame) {
  begin_frame(qp, psn, frame);
  if (!is_context(qp)) return;
  const queue::Route& route = queue::SendQueue::route_of(wqe);
  frame.headers.bth.dest_qp = route.qpn;
  frame.headers.deth = {route.qkey, route.source_qpn};
}

/// Executes bind or local invalidate; the status with which the element completes. No Flight word
/// may be published by this thread.
CompletionStatus run_local(queue::QueuePair& qp, queue::SendWqe& wqe);

}  // namespace weft::transport

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

/// What the last frame of a connected service's message says of it.
inline target::MessageInfo message_info(const queue::QueuePair& qp, const wire::Packet& last,
                                        std::uint32_t bytes) {
  const wire::OpcodeInfo& info = last.info();
  return {.bytes = bytes,
          .source_qp = qp.attributes.remote_qpn,
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

/// Starts the headers of any frame of a connected service.
inline void begin_frame(const queue::QueuePair& qp, Psn psn, network::OutFrame& frame) {
  frame.headers.bth = {};
  frame.headers.bth.dest_qp = qp.attributes.remote_qpn;
  frame.headers.bth.psn = psn;
}

/// Executes bind or local invalidate; the status with which the element completes. No Flight word
/// may be published by this thread.
CompletionStatus run_local(queue::QueuePair& qp, queue::SendWqe& wqe);

}  // namespace weft::transport

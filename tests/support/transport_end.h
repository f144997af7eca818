// Queue pairs with a transport state machine, driven by hand: frames come out as bytes and go in as
// bytes, so that a test decides what is lost, doubled, late or forged. Owned by the test; one
// thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "memory/flight.h"
#include "network/frame.h"
#include "support/queue_end.h"
#include "transport/rc.h"
#include "transport/uc.h"
#include "transport/ud.h"
#include "wire/packet.h"

namespace weft::test {

/// A frame as it is on the wire, without the ICRC.
struct Frame {
  std::vector<std::byte> bytes;

  wire::Packet packet() const {
    const auto parsed = wire::parse_packet(bytes);
    WEFT_ASSERT(parsed.has_value());
    return *parsed;
  }
  wire::Opcode opcode() const { return packet().bth.opcode; }
  Psn psn() const { return packet().bth.psn; }
};

inline Frame to_frame(const network::OutFrame& out) {
  Frame frame;
  frame.bytes.resize(wire::kMaxHeaderBytes);
  frame.bytes.resize(wire::emit_headers(out.headers, frame.bytes));
  for (const auto& piece : out.pieces()) {
    frame.bytes.insert(frame.bytes.end(), piece.data, piece.data + piece.size);
  }
  frame.bytes.resize(frame.bytes.size() + out.headers.bth.pad_count);
  return frame;
}

/// A frame that nobody's state machine made.
inline Frame forge(wire::Packet packet, std::span<const std::byte> payload = {}) {
  packet.payload = payload;
  packet.bth.pad_count = wire::pad_for(payload.size());
  Frame frame;
  frame.bytes.resize(wire::kMaxHeaderBytes + payload.size() + 3);
  frame.bytes.resize(wire::emit_packet(packet, frame.bytes));
  return frame;
}

inline wire::Packet headers_of(wire::Opcode opcode, Psn psn, bool ask_for_ack = true) {
  wire::Packet packet;
  packet.bth.opcode = opcode;
  packet.bth.psn = psn;
  packet.bth.ack_request = ask_for_ack;
  return packet;
}

inline bool is_response(const wire::Packet& packet) {
  const wire::Operation operation = packet.info().operation;
  return operation == wire::Operation::kAcknowledge ||
         operation == wire::Operation::kReadResponse ||
         operation == wire::Operation::kAtomicAcknowledge;
}

/// Both halves of a reliable connection.
class RcEnd : public QueueEnd {
 public:
  explicit RcEnd(const EndSetup& setup = {}, Qpn qpn = Qpn(0x11), Qpn peer = Qpn(0x22))
      : QueueEnd(setup, qpn, peer) {
    transport::start(requester, qp);
    transport::start(responder, qp);
  }

  Nanoseconds& now() { return scheduler.time_ns; }

  /// By the fast ways where they can, as a path does; else by the ordinary one.
  std::optional<Frame> next_request() {
    auto out = std::make_unique<network::OutFrame>();
    const std::span<network::OutFrame> one(out.get(), 1);
    const bool built =
        (fast && transport::fast_short_sends(requester, qp, now(), one) == 1) ||
        (fast && before_ && transport::fast_middles(requester, qp, now(), *before_, one) == 1) ||
        transport::next_request(requester, qp, now(), *out);
    before_ = built ? std::move(out) : nullptr;
    if (!built) return std::nullopt;
    auto frame = to_frame(*before_);
    memory::Flight::release_kept();
    return frame;
  }
  std::optional<Frame> next_answer() {
    network::OutFrame out;
    const bool there = transport::next_answer(responder, qp, out);
    std::optional<Frame> frame;
    if (there) frame = to_frame(out);
    memory::Flight::release_kept();
    return frame;
  }
  std::vector<Frame> requests() {
    std::vector<Frame> frames;
    while (auto frame = next_request()) frames.push_back(std::move(*frame));
    return frames;
  }
  std::vector<Frame> answers() {
    std::vector<Frame> frames;
    while (auto frame = next_answer()) frames.push_back(std::move(*frame));
    return frames;
  }

  void deliver(const Frame& frame) {
    before_ = nullptr;
    const wire::Packet packet = frame.packet();
    if (is_response(packet)) {
      transport::on_response(requester, qp, packet, now());
    } else if (!fast || !transport::fast_on_request(responder, qp, frame.bytes)) {
      transport::on_request(responder, qp, packet);
    }
  }
  void deliver(const std::vector<Frame>& frames) {
    for (const Frame& frame : frames) deliver(frame);
  }

  /// Lets time pass up to `when`, and the timers that are due run.
  void advance_to(Nanoseconds when) {
    before_ = nullptr;
    now() = std::max(now(), when);
    transport::on_timer(requester, qp, now());
  }
  /// What the progress engine does for a queue pair that asked to be run.
  void settle() {
    if (scheduler.soon == 0) return;
    scheduler.soon = 0;
    if (state() != QpState::kError) return;
    transport::stop(requester, qp);
    transport::stop(responder, qp);
    queue::flush(qp);
  }

  transport::RcRequester requester;
  transport::RcResponder responder;
  bool fast = true;  ///< false: everything goes the ordinary way

 private:
  std::unique_ptr<network::OutFrame> before_;  ///< nothing has happened since it was built
};

/// Hands everything over, both ways, until neither end has anything to say.
inline void exchange(RcEnd& a, RcEnd& b) {
  for (bool busy = true; busy;) {
    busy = false;
    for (auto [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      for (auto frames : {from->answers(), from->requests()}) {
        busy = busy || !frames.empty();
        to->deliver(frames);
      }
    }
  }
}

}  // namespace weft::test

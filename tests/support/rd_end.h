// One end of an end-to-end context with its state machine, driven by hand, and the queue pairs that
// it serves: one that messages come to, and as many senders as a test likes. Frames come out as
// bytes and go in as bytes. Owned by the test; one thread.
#pragma once

#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "support/transport_end.h"
#include "transport/message.h"
#include "transport/rd.h"

namespace weft::test {

inline constexpr QKey kEndKey{77};
inline constexpr Qpn kReceiver{0x33}, kContextHere{0x44}, kContextThere{0x55};

/// What became of a message that was posted.
struct Outcome {
  std::uint64_t wr_id;
  CompletionStatus status;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

/// The receiver is the QueueEnd's own queue pair; the context has the same memory and keys.
class RdEnd final : public QueueEnd, public transport::RdWork {
 public:
  explicit RdEnd(EndSetup setup = {}, Qpn number = kContextHere, Qpn peer = kContextThere,
                 bool windowed = true)
      : QueueEnd(as_datagram(setup), kReceiver, Qpn(0)) {
    qp.attributes.qkey = kEndKey;
    context.qpn = number;
    context.service = Service::kReliableDatagram;
    context.state = QpState::kReadyToSend;
    context.shared = &shared;
    context.attributes = setup.attributes;
    context.attributes.remote_qpn = peer;
    context.sq.configure({64, 0, 4, 0, 128}, true);
    requester.work = this;
    requester.windowed = windowed;
    transport::start(requester, context);
    transport::start(responder, context);
  }

  Nanoseconds& now() { return scheduler.time_ns; }

  /// A message of `sender` to the peer's receiver; nothing happens to it before it is pulled.
  void post(std::uint32_t sender, SendRequest request, const Sge& sge) {
    waiting_.push_back({sender, request, sge});
  }
  std::optional<Frame> next_request() {
    network::OutFrame out;
    std::optional<Frame> frame;
    if (transport::next_request(requester, context, now(), out)) frame = to_frame(out);
    memory::Flight::release_kept();
    return frame;
  }
  std::optional<Frame> next_answer() {
    network::OutFrame out;
    std::optional<Frame> frame;
    if (transport::next_answer(responder, context, out)) frame = to_frame(out);
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
    const wire::Packet packet = frame.packet();
    if (transport::is_response(packet)) {
      return transport::on_response(requester, context, packet, now());
    }
    const bool is_for_us = packet.bth.dest_qp == kReceiver && packet.deth.qkey == kEndKey;
    if (packet.info().operation == wire::Operation::kResync || !is_for_us) {
      return transport::on_request(responder, context, nullptr, nullptr, packet);
    }
    const std::lock_guard guard(qp.recv_lock);
    transport::on_request(responder, context, &qp, &target, packet);
  }
  void deliver(const std::vector<Frame>& frames) {
    for (const Frame& frame : frames) deliver(frame);
  }
  void advance_to(Nanoseconds when) {
    now() = std::max(now(), when);
    transport::on_timer(requester, context, now());
  }
  Nanoseconds deadline() const {
    Nanoseconds first = transport::next_deadline(requester);
    for (const Waiting& one : waiting_) {
      if (one.not_before > scheduler.time_ns) first = std::min(first, one.not_before);
    }
    return first;
  }
  std::vector<Outcome> take_outcomes() { return std::exchange(outcomes, {}); }

  // RdWork
  bool pull(queue::QueuePair&, Nanoseconds when) override {
    for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
      if (at->not_before > when || is_held_up(at)) continue;
      copy(*at);
      taken_.push_back(*at);
      waiting_.erase(at);
      return true;
    }
    return false;
  }
  bool keep_source(const queue::Route&) override { return !sources_gone; }
  bool hold_source(const queue::Route&) override { return !sources_gone; }
  void finish(const queue::SendWqe& wqe, CompletionStatus status) override {
    if (queue::SendQueue::route_of(wqe).source == nullptr) return;
    outcomes.push_back({wqe.wr_id, status});
    forget(wqe.wr_id);
  }
  void put_back(const queue::SendWqe& wqe) override { waiting_.push_front(forget(wqe.wr_id)); }
  bool park(const queue::SendWqe& wqe, Nanoseconds until) override {
    for (Waiting& one : taken_) {
      if (one.request.wr_id == wqe.wr_id) one.not_before = until;
    }
    return parks;
  }
  void fail_all() override { ++failures; }

  queue::QueuePair context;
  transport::RdRequester requester;
  transport::RdResponder responder;
  transport::RdTarget target;
  std::vector<Outcome> outcomes;
  bool sources_gone = false;
  bool parks = true;
  int failures = 0;

 private:
  struct Waiting {
    std::uint32_t sender;
    SendRequest request;
    Sge sge;
    Nanoseconds not_before = 0;
  };

  static EndSetup as_datagram(EndSetup setup) {
    setup.service = Service::kReliableDatagram;
    return setup;
  }
  /// An earlier message of the same sender waits for its receiver.
  bool is_held_up(std::deque<Waiting>::iterator at) const {
    return std::any_of(waiting_.begin(), std::deque<Waiting>::const_iterator(at),
                       [&](const Waiting& one) { return one.sender == at->sender; });
  }
  void copy(const Waiting& message) {
    queue::SendWqe* wqe = context.sq.reserve();
    WEFT_ASSERT(wqe != nullptr);
    *wqe = {};
    const SendRequest& request = message.request;
    wqe->wr_id = request.wr_id;
    wqe->op = request.op;
    wqe->flags = SendFlags::kSignaled;
    wqe->num_sge = 1;
    wqe->length = message.sge.length;
    wqe->immediate = request.immediate;
    wqe->rdma = {request.remote, request.compare, request.operand};
    *wqe->sges() = message.sge;
    queue::SendQueue::route_of(*wqe) = {.destination = {},
                                        .qpn = kReceiver,
                                        .qkey = request.destination_qkey,
                                        .source_qpn = Qpn(message.sender),
                                        .pd = kPd,
                                        .source = &qp};
    context.sq.commit();
  }
  Waiting forget(std::uint64_t wr_id) {
    const auto at = std::find_if(taken_.begin(), taken_.end(),
                                 [&](const Waiting& one) { return one.request.wr_id == wr_id; });
    WEFT_ASSERT(at != taken_.end());
    Waiting out = *at;
    taken_.erase(at);
    return out;
  }

  std::deque<Waiting> waiting_;
  std::vector<Waiting> taken_;
};

}  // namespace weft::test

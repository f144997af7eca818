#include "cm/connection.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/assert.h"

namespace weft::cm {
namespace {

/// 4.096 us << 24: 68 s. The program may think that long about an answer. A peer that asks for more
/// gets no more.
constexpr std::uint8_t kPatience = 24;

constexpr Nanoseconds timeout_ns(std::uint8_t code) {
  return Nanoseconds{4096} << std::min(code, kPatience);
}

template <std::size_t kBytes>
std::vector<std::byte> copy(const PrivateData<kBytes>& data) {
  return {data.begin(), data.end()};
}

/// Which of the peer's messages a reject in this phase is about.
About rejected_in(Connection::Phase phase) {
  switch (phase) {
    case Connection::Phase::kRequestReceived:
    case Connection::Phase::kReplySent:
      return About::kRequest;
    case Connection::Phase::kReplyReceived:
      return About::kReply;
    default:
      return About::kOther;
  }
}

}  // namespace

Connection::Connection(CommId local, Psn receive_psn, TransactionId transaction,
                       const Timing& timing)
    : local_(local), resender_(timing), transaction_(transaction) {
  WEFT_ASSERT(local.value != 0);
  terms_.receive_psn = receive_psn;
}

template <class Body>
void Connection::send(Body body, Outcome& out) const {
  body.local = local_;
  body.remote = remote_;
  out.messages.push_back(Message{transaction_, std::move(body)});
}

void Connection::send_patience(About about, Outcome& out) const {
  send(Acknowledgement{.local = {}, .remote = {}, .about = about, .service_timeout = kPatience},
       out);
}

void Connection::send_disconnect_reply(Outcome& out) const { send(DisconnectReply{}, out); }

void Connection::enter_timewait(Nanoseconds now) {
  resender_.stop();
  phase_ = Phase::kTimewait;
  timewait_end_ns_ = now + resender_.timing().timewait_ns;
}

void Connection::end() {
  resender_.stop();
  timewait_end_ns_ = kNever;
  phase_ = Phase::kEnded;
}

void Connection::end_rejected(RejectReason reason, std::vector<std::byte> private_data,
                              Outcome& out) {
  end();
  out.events.push_back(
      {.kind = Event::Kind::kRejected, .reason = reason, .private_data = std::move(private_data)});
}

bool Connection::request(Request terms, Nanoseconds now, Outcome& out) {
  if (phase_ != Phase::kIdle) return false;
  terms.local = local_;
  terms.starting_psn = terms_.receive_psn;
  terms_.responder_resources = terms.responder_resources;
  terms_.initiator_depth = terms.initiator_depth;
  terms_.retry_count = terms.retry_count;
  terms_.rnr_retry_count = terms.rnr_retry_count;
  terms_.transport = terms.transport;
  terms_.mtu_code = terms.mtu_code;
  local_qpn_ = terms.qpn;
  phase_ = Phase::kRequestSent;
  resender_.start(Message{transaction_, std::move(terms)}, now, out);
  return true;
}

bool Connection::accept(Reply terms, Nanoseconds now, Outcome& out) {
  if (phase_ != Phase::kRequestReceived) return false;
  terms.local = local_;
  terms.remote = remote_;
  local_qpn_ = terms.qpn;
  // An extended queue pair is no queue pair to the peer but an end-to-end context.
  if (terms_.transport == Transport::kExtended) {
    terms.eec = EecNumber(terms.qpn.value);
    terms.qpn = {};
    terms.srq = true;
  }
  terms.starting_psn = terms_.receive_psn;
  terms_.responder_resources = terms.responder_resources;
  terms_.initiator_depth = terms.initiator_depth;
  phase_ = Phase::kReplySent;
  resender_.start(Message{transaction_, std::move(terms)}, now, out);
  return true;
}

bool Connection::confirm(Outcome& out) {
  if (phase_ != Phase::kReplyReceived) return false;
  phase_ = Phase::kEstablished;
  send(ReadyToUse{}, out);
  return true;
}

bool Connection::reject(RejectReason reason, std::span<const std::byte> private_data,
                        Outcome& out) {
  switch (phase_) {
    case Phase::kRequestSent:
    case Phase::kRequestReceived:
    case Phase::kReplySent:
    case Phase::kReplyReceived:
      break;
    default:
      return false;
  }
  Reject message{.local = {}, .remote = {}, .about = rejected_in(phase_), .reason = reason};
  WEFT_ASSERT(private_data.size() <= message.private_data.size());
  std::copy(private_data.begin(), private_data.end(), message.private_data.begin());
  send(message, out);
  end();
  return true;
}

bool Connection::on_data(Outcome& out) {
  if (phase_ != Phase::kReplySent) return false;
  resender_.stop();
  phase_ = Phase::kEstablished;
  out.events.push_back({Event::Kind::kEstablished});
  return true;
}

bool Connection::disconnect(Nanoseconds now, Outcome& out) {
  if (phase_ == Phase::kDisconnectReceived) {
    send_disconnect_reply(out);
    enter_timewait(now);
    return true;
  }
  if (phase_ != Phase::kEstablished) return false;
  ++transaction_.value;
  phase_ = Phase::kDisconnectSent;
  DisconnectRequest message{local_, remote_, terms_.remote_qpn, {}};
  resender_.start(Message{transaction_, message}, now, out);
  return true;
}

void Connection::close(Outcome& out) {
  switch (phase_) {
    case Phase::kIdle:
    case Phase::kDisconnectSent:
    case Phase::kTimewait:
    case Phase::kEnded:
      break;
    case Phase::kRequestSent:
      reject(RejectReason::kTimeout, {}, out);
      break;
    case Phase::kRequestReceived:
    case Phase::kReplySent:
    case Phase::kReplyReceived:
      reject(RejectReason::kConsumer, {}, out);
      break;
    case Phase::kEstablished:
      disconnect(0, out);
      break;
    case Phase::kDisconnectReceived:
      send_disconnect_reply(out);
      break;
  }
  end();
}

bool Connection::on_message(const Message& message, Nanoseconds now, Outcome& out) {
  if (!fits(message)) return false;
  // Answers carry the number of the question.
  if (std::holds_alternative<Request>(message.body) ||
      std::holds_alternative<DisconnectRequest>(message.body)) {
    transaction_ = message.transaction;
  }
  std::visit([&](const auto& body) { on_body(body, now, out); }, message.body);
  return true;
}

// ---- whose message it is -----------------------------------------------------------------------

bool Connection::fits(const Message& message) const {
  return std::visit([&](const auto& body) { return fits(message, body); }, message.body);
}

bool Connection::fits(const Message& message, const Request& request) const {
  if (phase_ == Phase::kIdle) return true;
  return request.local == remote_ && message.transaction == transaction_;
}

template <class Answer>
bool Connection::fits(const Message& message, const Answer& answer) const {
  if (answer.remote != local_) return false;
  // Whoever has the port now answers, under a number of its own.
  if (phase_ == Phase::kRequestSent) return message.transaction == transaction_;
  return answer.local == remote_;
}

bool Connection::fits(const Message& message, const Reject& reject) const {
  const bool waits_for_peer = phase_ == Phase::kRequestReceived || phase_ == Phase::kReplySent;
  if (reject.remote.value == 0 && waits_for_peer) {  // it gives up before it learnt our number
    return reject.local == remote_ && message.transaction == transaction_;
  }
  return fits<Reject>(message, reject);
}

bool Connection::fits(const Message& message, const DisconnectRequest& request) const {
  return request.remote_qpn == local_qpn_ && fits<DisconnectRequest>(message, request);
}

// ---- what each does ----------------------------------------------------------------------------

void Connection::on_body(const Request& request, Nanoseconds, Outcome& out) {
  switch (phase_) {
    case Phase::kIdle:
      remote_ = request.local;
      terms_ = {.remote_qpn = request.qpn,
                .send_psn = request.starting_psn,
                .receive_psn = terms_.receive_psn,
                // What the peer gives, this end takes.
                .responder_resources = request.initiator_depth,
                .initiator_depth = request.responder_resources,
                .retry_count = request.retry_count,
                .rnr_retry_count = request.rnr_retry_count,
                .srq = request.srq,
                .flow_control = request.flow_control,
                .vendor = request.vendor,
                .transport = request.transport,
                .mtu_code = request.mtu_code};
      phase_ = Phase::kRequestReceived;
      send_patience(About::kRequest, out);
      break;
    case Phase::kRequestReceived:
      send_patience(About::kRequest, out);
      break;
    case Phase::kReplySent:
      resender_.repeat(out);
      break;
    default:
      break;
  }
}

void Connection::on_body(const Acknowledgement& acknowledgement, Nanoseconds now, Outcome&) {
  const bool for_request =
      phase_ == Phase::kRequestSent && acknowledgement.about == About::kRequest;
  const bool for_reply = phase_ == Phase::kReplySent && acknowledgement.about == About::kReply;
  if (!for_request && !for_reply) return;
  if (for_request) remote_ = acknowledgement.local;
  resender_.wait_for(timeout_ns(acknowledgement.service_timeout) + resender_.timing().last_retry_ns,
                     now);
}

void Connection::on_body(const Reject& reject, Nanoseconds now, Outcome& out) {
  switch (phase_) {
    case Phase::kRequestSent:
    case Phase::kRequestReceived:
    case Phase::kReplySent:
    case Phase::kReplyReceived:
      end_rejected(reject.reason, copy(reject.private_data), out);
      break;
    case Phase::kEstablished:  // The peer gave up while our RTU was under way.
    case Phase::kDisconnectSent:
      enter_timewait(now);
      out.events.push_back({Event::Kind::kDisconnected});
      break;
    default:
      break;
  }
}

void Connection::on_body(const Reply& reply, Nanoseconds, Outcome& out) {
  switch (phase_) {
    case Phase::kRequestSent:
      resender_.stop();
      remote_ = reply.local;
      terms_.remote_qpn =
          terms_.transport == Transport::kExtended ? Qpn(reply.eec.value) : reply.qpn;
      terms_.send_psn = reply.starting_psn;
      terms_.responder_resources = reply.initiator_depth;
      terms_.initiator_depth = reply.responder_resources;
      terms_.rnr_retry_count = reply.rnr_retry_count;
      terms_.srq = reply.srq;
      terms_.flow_control = reply.flow_control;
      terms_.vendor = reply.vendor;
      phase_ = Phase::kReplyReceived;
      send_patience(About::kReply, out);
      out.events.push_back(
          {.kind = Event::Kind::kReplied, .private_data = copy(reply.private_data)});
      break;
    case Phase::kReplyReceived:
      send_patience(About::kReply, out);
      break;
    case Phase::kEstablished:
      send(ReadyToUse{}, out);
      break;
    default:
      break;
  }
}

void Connection::on_body(const ReadyToUse& ready, Nanoseconds, Outcome& out) {
  if (phase_ != Phase::kReplySent) return;
  resender_.stop();
  phase_ = Phase::kEstablished;
  out.events.push_back(
      {.kind = Event::Kind::kEstablished, .private_data = copy(ready.private_data)});
}

void Connection::on_body(const DisconnectRequest&, Nanoseconds, Outcome& out) {
  switch (phase_) {
    case Phase::kReplySent:
    case Phase::kEstablished:
    case Phase::kDisconnectSent:
      resender_.stop();
      phase_ = Phase::kDisconnectReceived;
      out.events.push_back({.kind = Event::Kind::kDisconnected});
      break;
    case Phase::kTimewait:  // Our answer was lost.
      send_disconnect_reply(out);
      break;
    default:
      break;
  }
}

void Connection::on_body(const DisconnectReply&, Nanoseconds now, Outcome& out) {
  if (phase_ == Phase::kDisconnectSent) {
    out.events.push_back({.kind = Event::Kind::kDisconnected});
    enter_timewait(now);
  } else if (phase_ == Phase::kDisconnectReceived) {
    enter_timewait(now);
  }
}

void Connection::on_nobody_there(Outcome& out) {
  if (phase_ != Phase::kRequestSent) return;
  end_rejected(RejectReason::kInvalidServiceId, copy(Reject{}.private_data), out);
}

void Connection::on_peer_gone(Nanoseconds now, Outcome& out) {
  switch (phase_) {
    case Phase::kIdle:
    case Phase::kTimewait:
    case Phase::kEnded:
      break;
    case Phase::kRequestSent:
    case Phase::kRequestReceived:
    case Phase::kReplySent:
    case Phase::kReplyReceived:
      end_rejected(RejectReason::kConsumer, copy(Reject{}.private_data), out);
      break;
    case Phase::kEstablished:
    case Phase::kDisconnectSent:
      out.events.push_back({.kind = Event::Kind::kDisconnected});
      enter_timewait(now);
      break;
    case Phase::kDisconnectReceived:
      enter_timewait(now);
      break;
  }
}

void Connection::on_timer(Nanoseconds now, Outcome& out) {
  if (now < deadline()) return;
  if (phase_ == Phase::kTimewait) {
    end();
    out.events.push_back({Event::Kind::kTimewaitOver});
    return;
  }
  if (resender_.on_timer(now, out)) return;
  switch (phase_) {
    case Phase::kRequestSent:
    case Phase::kReplySent:
      reject(RejectReason::kTimeout, {}, out);
      out.events.push_back({.kind = Event::Kind::kUnreachable, .timed_out = true});
      break;
    case Phase::kDisconnectSent:
      out.events.push_back({.kind = Event::Kind::kDisconnected, .timed_out = true});
      enter_timewait(now);
      break;
    default:
      WEFT_ASSERT(false && "a deadline in a phase without one");
  }
}

Nanoseconds Connection::deadline() const {
  return phase_ == Phase::kTimewait ? timewait_end_ns_ : resender_.deadline();
}

}  // namespace weft::cm

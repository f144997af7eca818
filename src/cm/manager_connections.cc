#include <algorithm>

#include "cm/manager.h"

// What programs ask of a connection. The state machines know what is allowed when.
namespace weft::cm {
namespace {

constexpr std::uint8_t kResponseTimeout = 20;  // 4.096 us << 20: 4 s
constexpr std::uint8_t kCmRetries = 15;
constexpr std::uint8_t kMostRetries = 7;

tl::unexpected<Error> wrong_phase() {
  return fail(Errc::kInvalidState, "connection: not in this phase");
}
tl::unexpected<Error> too_long() { return fail(Errc::kInvalidArgument, "private_data: too long"); }

template <class Body>
bool set_private_data(Body& body, std::span<const std::byte> private_data, std::size_t at = 0) {
  if (private_data.size() > body.private_data.size() - at) return false;
  std::copy(private_data.begin(), private_data.end(),
            body.private_data.begin() + static_cast<std::ptrdiff_t>(at));
  return true;
}

/// Private data of a question: both addresses, then the program's.
template <class Question>
bool set_question_data(Question& question, const Identifier& id,
                       std::span<const std::byte> private_data) {
  const IpHeader header{id.destination.family == Family::kIpv6, id.source.port, id.source.address,
                        id.destination.address};
  emit_ip_header(header, question.private_data);
  return set_private_data(question, private_data, kIpHeaderBytes);
}

/// What REQ and REP have in common.
template <class Body>
void set_parameters(Body& to, const ConnectionParameters& from) {
  to.qpn = Qpn(from.qpn.value & kMask24);
  to.responder_resources = from.responder_resources;
  to.initiator_depth = from.initiator_depth;
  to.flow_control = from.flow_control;
  to.rnr_retry_count = std::min(from.rnr_retry_count, kMostRetries);
  to.srq = from.srq;
  to.vendor = {from.vendor.vendor & kMask24, from.vendor.options};
}

Transport transport_of(QpType type) {
  switch (type) {
    case QpType::kUnreliable:
      return Transport::kUnreliable;
    case QpType::kExtendedSend:
    case QpType::kExtendedReceive:
      return Transport::kExtended;
    default:
      return Transport::kReliable;
  }
}

Request request_of(const Identifier& id, const ConnectionParameters& parameters) {
  Request to;
  set_parameters(to, parameters);
  to.retry_count = std::min(parameters.retry_count, kMostRetries);
  to.remote_response_timeout = to.local_response_timeout = kResponseTimeout;
  to.transport = transport_of(id.qp_type);
  to.pkey = kDefaultPKey;
  to.mtu_code = id.mtu_code;
  to.max_cm_retries = kCmRetries;
  to.service = service_id(id.space, id.destination.port);
  to.ca_guid = id.device->guid;
  constexpr Lid kNoLid{0xFFFF};  // on Ethernet only the GIDs count
  to.primary.local_lid = to.primary.remote_lid = kNoLid;
  to.primary.local_gid = id.local_gid;
  to.primary.remote_gid = id.remote_gid;
  to.primary.traffic_class = id.traffic_class;
  to.primary.hop_limit = kHopLimit;
  to.primary.ack_timeout = id.ack_timeout.value_or(kAckTimeout);
  return to;
}

}  // namespace

void Manager::begin(Identifier& id, Outcome& outcome, Nanoseconds now, Actions& out) {
  id.active = true;
  id.asked_at_ns = now;
  id.state = Identifier::State::kConnecting;
  apply(id, outcome, now, out);
}

Result<void> Manager::connect(Identifier& id, const ConnectionParameters& parameters,
                              std::span<const std::byte> private_data, Nanoseconds now,
                              Actions& out) {
  if (id.state != Identifier::State::kRouteResolved) return wrong_phase();
  Request terms = request_of(id, parameters);
  if (!set_question_data(terms, id, private_data)) return too_long();
  if (id.off_host && !claim_block()) return fail(Errc::kSystem, "connection: no number is left");
  id.local_qpn = terms.qpn;
  Outcome outcome;
  make_connection(id).request(std::move(terms), now, outcome);
  begin(id, outcome, now, out);
  return {};
}

Result<void> Manager::ask(Identifier& id, std::span<const std::byte> private_data, Nanoseconds now,
                          Actions& out) {
  if (id.state != Identifier::State::kRouteResolved) return wrong_phase();
  ServiceRequest question;
  if (!set_question_data(question, id, private_data)) return too_long();
  question.pkey = kDefaultPKey;
  question.service = service_id(id.space, id.destination.port);
  if (id.off_host && !claim_block()) return fail(Errc::kSystem, "connection: no number is left");
  const CommId number = new_comm_id();
  id.query = std::make_unique<ServiceQuery>(number, random_transaction(), Timing());
  by_comm_id_[number] = &id;
  Outcome outcome;
  id.query->ask(std::move(question), now, outcome);
  begin(id, outcome, now, out);
  return {};
}

Result<void> Manager::accept(Identifier& id, const ConnectionParameters& parameters,
                             std::span<const std::byte> private_data, Nanoseconds now,
                             Actions& out) {
  if (!id.connection) return wrong_phase();
  Reply terms;
  if (!set_private_data(terms, private_data)) return too_long();
  set_parameters(terms, parameters);
  terms.ca_guid = id.device->guid;
  Outcome outcome;
  if (!id.connection->accept(terms, now, outcome)) return wrong_phase();
  id.local_qpn = terms.qpn;
  apply(id, outcome, now, out);
  return {};
}

Result<void> Manager::answer(Identifier& id, const ServiceParameters& parameters,
                             std::span<const std::byte> private_data, Nanoseconds now,
                             Actions& out) {
  ServiceReply reply;
  if (!set_private_data(reply, private_data)) return too_long();
  reply.status = parameters.status;
  reply.qpn = Qpn(parameters.qpn.value & kMask24);
  if (parameters.status == ServiceStatus::kSuccess) reply.qkey = id.qkey;
  reply.vendor = {parameters.vendor.vendor & kMask24, parameters.vendor.options};
  Outcome outcome;
  if (!id.answer || !id.answer->answer(reply, outcome)) return wrong_phase();
  apply(id, outcome, now, out);
  return {};
}

Result<void> Manager::confirm(Identifier& id, Nanoseconds now, Actions& out) {
  Outcome outcome;
  if (!id.connection || !id.connection->confirm(outcome)) return wrong_phase();
  apply(id, outcome, now, out);
  return {};
}

Result<void> Manager::reject(Identifier& id, RejectReason reason,
                             std::span<const std::byte> private_data, Nanoseconds now,
                             Actions& out) {
  if (private_data.size() > sizeof Reject::private_data) return too_long();
  Outcome outcome;
  if (!id.connection || !id.connection->reject(reason, private_data, outcome)) {
    return wrong_phase();
  }
  apply(id, outcome, now, out);
  return {};
}

Result<void> Manager::disconnect(Identifier& id, Nanoseconds now, Actions& out) {
  if (!id.connection) return wrong_phase();
  Outcome outcome;
  id.ended_here = true;
  tell_held(id, out);
  // Not connected any more, or not yet: as the kernel, that is no error.
  id.connection->disconnect(now, outcome);
  apply(id, outcome, now, out);
  return {};
}

Result<void> Manager::on_data(Identifier& id, Nanoseconds now, Actions& out) {
  Outcome outcome;
  if (!id.connection || !id.connection->on_data(outcome)) return wrong_phase();
  apply(id, outcome, now, out);
  return {};
}

}  // namespace weft::cm

#include <variant>

#include "ucma/agent.h"
#include "ucma/clock.h"
#include "ucma/file.h"
#include "ucma/local_addresses.h"

// What arrives from other processes. Nothing in a message is believed beyond what the link says:
// who sent it is the process at the other end.
namespace weft::ucma {
namespace {

QpType type_of(const cm::Request& request) {
  switch (request.transport) {
    case cm::Transport::kReliable:
      return QpType::kReliable;
    case cm::Transport::kUnreliable:
      return QpType::kUnreliable;
    case cm::Transport::kExtended:
      return QpType::kExtendedReceive;
  }
  return QpType::kUnknown;
}
QpType type_of(const cm::ServiceRequest&) { return QpType::kDatagram; }

cm::CommId number_of(const cm::Request& request) { return request.local; }
cm::CommId number_of(const cm::ServiceRequest& request) { return request.request; }

Endpoint endpoint_of(const cm::IpHeader& header, const Gid& address, cm::Port port) {
  Endpoint endpoint;
  endpoint.family = header.ipv6 ? AF_INET6 : AF_INET;
  endpoint.address = address;
  endpoint.port = port;
  return endpoint;
}

const files::ShownDevice* device_of(const Identifier& listener, const cm::Packet& packet,
                                    const cm::IpHeader& header) {
  if (const auto* device = device_with(packet.destination)) return device;
  if (const auto* device = device_with(header.destination)) return device;
  return listener.device != nullptr ? listener.device : &files::shown_devices().front();
}

/// Nobody listens there.
bool says_nobody(const cm::Message& message) {
  const auto* reject = std::get_if<cm::Reject>(&message.body);
  const auto* reply = std::get_if<cm::ServiceReply>(&message.body);
  return (reject != nullptr && reject->reason == cm::RejectReason::kInvalidServiceId) ||
         (reply != nullptr && reply->status == cm::ServiceStatus::kUnsupported);
}

}  // namespace

void Agent::on_packet(cm::LinkId link, const cm::Packet& packet) {
  if (const auto* request = std::get_if<cm::Request>(&packet.message.body)) {
    on_question(link, packet, *request);
  } else if (const auto* service = std::get_if<cm::ServiceRequest>(&packet.message.body)) {
    on_question(link, packet, *service);
  } else {
    on_answer(link, packet);
  }
}

template <class Question>
void Agent::on_question(cm::LinkId link, const cm::Packet& packet, const Question& question) {
  if (const auto known = by_question_.find({link, number_of(question)});
      known != by_question_.end()) {
    cm::Outcome out;
    Identifier& id = *known->second;
    if (id.connection) id.connection->on_message(packet.message, now(), out);
    if (id.answer) id.answer->on_question(out);
    return apply(id, out);
  }
  const auto header = cm::parse_ip_header(question.private_data);
  Identifier* const listener =
      header ? find_listener(question.service, header->destination) : nullptr;
  if (listener == nullptr && header && is_about_to_listen(question.service, header->destination)) {
    return;  // the peer asks again
  }
  if (listener == nullptr) {
    return refuse(link, packet, question, cm::RejectReason::kInvalidServiceId);
  }
  if (listener->qp_type != type_of(question)) {
    return refuse(link, packet, question, cm::RejectReason::kConsumer);
  }
  // No answer at all: the peer asks again, and then there may be room.
  if (listener->backlog_left == 0) return;
  Identifier* const child = create(*listener->file, listener->space, type_of(question), UserTag());
  if (child == nullptr) return;
  child->state = Identifier::State::kConnecting;
  child->source = endpoint_of(*header, header->destination, listener->source.port);
  child->destination = endpoint_of(*header, header->source, header->source_port);
  child->device = device_of(*listener, packet, *header);
  child->local_gid = child->device->address;
  child->remote_gid = packet.source;
  child->traffic_class = listener->traffic_class;
  child->ack_timeout = listener->ack_timeout;
  child->link = link;
  by_question_[{link, number_of(question)}] = child;
  --listener->backlog_left;
  start(*child, packet, question);
  const auto data = std::span(question.private_data).subspan(cm::kIpHeaderBytes);
  post(*listener, make_request_event(*listener, *child, data));
}

void Agent::start(Identifier& child, const cm::Packet& packet, const cm::Request&) {
  child.connection.emplace(new_comm_id(), cm::Timing());
  by_comm_id_[child.connection->local()] = &child;
  cm::Outcome out;
  child.connection->on_message(packet.message, now(), out);
  apply(child, out);
}

void Agent::start(Identifier& child, const cm::Packet& packet, const cm::ServiceRequest& request) {
  child.answer.emplace(request.request, packet.message.transaction, request.service);
}

void Agent::refuse(cm::LinkId link, const cm::Packet& packet, const cm::Request& request,
                   cm::RejectReason reason) {
  cm::Reject reject;
  reject.remote = request.local;
  reject.reason = reason;
  exchange_.send(link, {packet.destination, packet.source, {packet.message.transaction, reject}});
}

void Agent::refuse(cm::LinkId link, const cm::Packet& packet, const cm::ServiceRequest& request,
                   cm::RejectReason reason) {
  cm::ServiceReply reply;
  reply.request = request.request;
  reply.service = request.service;
  reply.status = reason == cm::RejectReason::kInvalidServiceId ? cm::ServiceStatus::kUnsupported
                                                               : cm::ServiceStatus::kReject;
  exchange_.send(link, {packet.destination, packet.source, {packet.message.transaction, reply}});
}

Identifier* Agent::addressee(cm::LinkId link, const cm::Message& message) {
  cm::CommId local, remote;
  std::visit(
      [&](const auto& body) {
        if constexpr (requires { body.remote; }) {
          local = body.remote;
          remote = body.local;
        } else {
          if constexpr (requires { body.request; }) local = body.request;
        }
      },
      message.body);
  if (local.value == 0) {  // The peer gives up before it learnt our number.
    const auto found = by_question_.find({link, remote});
    return found == by_question_.end() ? nullptr : found->second;
  }
  const auto found = by_comm_id_.find(local);
  if (found == by_comm_id_.end() || found->second->link != link) return nullptr;
  return found->second;
}

void Agent::on_answer(cm::LinkId link, const cm::Packet& packet) {
  Identifier* const id = addressee(link, packet.message);
  if (id == nullptr) return on_stray(link, packet);
  if (id->active && retry_elsewhere(*id, packet.message)) return;
  if (id->active && says_nobody(packet.message) && asks_again(*id)) return;
  const bool accepts = std::holds_alternative<cm::Reply>(packet.message.body) ||
                       std::holds_alternative<cm::ServiceReply>(packet.message.body);
  // The peer knows best which of its devices it uses.
  if (id->active && accepts) id->remote_gid = packet.source;
  cm::Outcome out;
  if (id->connection) id->connection->on_message(packet.message, now(), out);
  if (id->query) id->query->on_message(packet.message, out);
  apply(*id, out);
}

/// For nobody here: what the peer needs to hear so that it stops waiting.
void Agent::on_stray(cm::LinkId link, const cm::Packet& packet) {
  const auto answer = [&](auto body) {
    exchange_.send(link, {packet.destination, packet.source, {packet.message.transaction, body}});
  };
  if (const auto* request = std::get_if<cm::DisconnectRequest>(&packet.message.body)) {
    answer(cm::DisconnectReply{request->remote, request->local, {}});
  } else if (const auto* reply = std::get_if<cm::Reply>(&packet.message.body)) {
    cm::Reject reject;
    reject.local = reply->remote;
    reject.remote = reply->local;
    reject.about = cm::About::kReply;
    reject.reason = cm::RejectReason::kInvalidCommId;
    answer(reject);
  }
}

/// A program closes one listener before it opens the next: a question that falls between them comes
/// again by itself, after 0.1, 0.3 and 0.7 s.
bool Agent::asks_again(const Identifier& id) {
  constexpr Nanoseconds kPatience_ns = 500'000'000;
  return now() - id.asked_at_ns < kPatience_ns;
}

/// A link that existed already may lead to a process that had the port before.
bool Agent::retry_elsewhere(Identifier& id, const cm::Message& message) {
  if (!says_nobody(message) || id.link_fresh || !id.first_message) return false;
  const auto route = exchange_.reach(id.space, id.destination.port, id.destination.address, true);
  if (!route) return false;
  exchange_.release(id.link);
  id.link = route->link;
  id.link_fresh = true;
  exchange_.send(id.link, {id.local_gid, id.remote_gid, *id.first_message});
  return true;
}

void Agent::on_link_gone(cm::LinkId link) {
  for (const auto& [handle, id] : ids_) {
    if (id->link != link) continue;
    if (!id->active) {
      if (id->connection) by_question_.erase({link, id->connection->remote()});
      if (id->answer) by_question_.erase({link, id->answer->question()});
    }
    id->link = {};
    cm::Outcome out;
    if (id->connection) id->connection->on_peer_gone(now(), out);
    if (id->query) id->query->on_peer_gone(out);
    apply(*id, out);
  }
}

}  // namespace weft::ucma

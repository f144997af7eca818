#include <algorithm>
#include <type_traits>
#include <variant>

#include "cm/names.h"
#include "cm/provenance.h"
#include "cm/stray.h"
#include "network/address.h"
#include "obs/log.h"
#include "ucma/agent.h"
#include "ucma/clock.h"
#include "ucma/file.h"
#include "ucma/local_addresses.h"
#include "verbs/controller.h"

// What arrives from other processes and other hosts. Nothing in a message is believed beyond what
// the link says, that who sent it is the process at the other end, or what the network says, that
// it came from that address.
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

Agent::Asker Agent::asker_of(const Identifier& id, cm::CommId number) {
  return {id.link, id.link == kNetworkLink ? id.remote_gid : Gid{}, number};
}

void Agent::on_packet(const cm::HostExchange::Arrival& arrival) {
  const cm::Packet& packet = *arrival.packet;
  // Whoever handed it over has done its part: answers go to the host that it came from.
  const cm::LinkId link = packet.from_network ? kNetworkLink : arrival.link;
  if (packet.from_network && !cm::is_credible(packet)) return count_refused(packet);
  const auto on_credible_question = [&](const auto& question) {
    if (!is_credible(arrival, question)) return count_refused(packet);
    on_question(link, packet, question);
  };
  if (const auto* request = std::get_if<cm::Request>(&packet.message.body)) {
    on_credible_question(*request);
  } else if (const auto* service = std::get_if<cm::ServiceRequest>(&packet.message.body)) {
    on_credible_question(*service);
  } else {
    on_answer(link, packet);
  }
}

/// A question must be about the port that was called. Of another host, the frame tells both
/// addresses; on this host they must be this machine's, or those of the devices of both ends.
template <class Question>
bool Agent::is_credible(const cm::HostExchange::Arrival& arrival, const Question& question) {
  const cm::Packet& packet = *arrival.packet;
  const auto header = cm::parse_ip_header(question.private_data);
  const Gid& asked = packet.from_network || !header ? packet.destination : header->destination;
  const auto names =
      cm::names_at(cm::space_of(question.service), cm::port_of(question.service), asked);
  if (std::ranges::find(names, arrival.came_to) == names.end()) return false;
  if (packet.from_network || !header) return true;
  const LocalAddresses local;
  const auto known = [&](const Gid& address, const Gid& device) {
    return address == device || local.reaches(address);
  };
  return known(header->source, packet.source) && known(header->destination, packet.destination);
}

void Agent::count_refused(const cm::Packet& packet) const {
  const auto* shown = device_with(packet.destination);
  const auto* device = shown != nullptr ? network_device(*shown) : nullptr;
  if (device != nullptr) device->controller()->counters().add(obs::Counter::kRefusedMessages);
  obs::log().debug("connection manager: a message that claims to be of {} was refused",
                   network::to_string(packet.source));
}

template <class Question>
void Agent::on_question(cm::LinkId link, const cm::Packet& packet, const Question& question) {
  const Asker asked{link, packet.from_network ? packet.source : Gid{}, number_of(question)};
  if (const auto known = by_question_.find(asked); known != by_question_.end()) {
    cm::Outcome out;
    Identifier& id = *known->second;
    if (id.connection && !id.connection->on_message(packet.message, now(), out)) {
      return count_refused(packet);
    }
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
  const files::ShownDevice& device = *device_of(*listener, packet, *header);
  if constexpr (std::is_same_v<Question, cm::Request>) {
    // It would send frames that this end cannot take, and neither would learn why nothing arrives.
    if (packet.from_network && question.mtu_code > mtu_code_of(device)) {
      return refuse(link, packet, question, cm::RejectReason::kInvalidPathMtu);
    }
  }
  // No answer at all: the peer asks again, and then there may be room.
  if (listener->backlog_left == 0 || (packet.from_network && !claim_block())) return;
  Identifier* const child = create(*listener->file, listener->space, type_of(question), UserTag());
  if (child == nullptr) return;
  child->state = Identifier::State::kConnecting;
  child->source = endpoint_of(*header, header->destination, listener->source.port);
  child->destination = endpoint_of(*header, header->source, header->source_port);
  use(*child, device);
  child->remote_gid = packet.source;
  child->off_host = packet.from_network;
  child->traffic_class = listener->traffic_class;
  child->ack_timeout = listener->ack_timeout;
  child->link = link;
  by_question_[asked] = child;
  --listener->backlog_left;
  start(*child, packet, question);
  const auto data = std::span(question.private_data).subspan(cm::kIpHeaderBytes);
  post(*listener, make_request_event(*listener, *child, data));
}

void Agent::start(Identifier& child, const cm::Packet& packet, const cm::Request&) {
  const cm::CommId number = new_comm_id();
  child.connection.emplace(number, random_psn(), random_transaction(), cm::Timing());
  by_comm_id_[number] = &child;
  cm::Outcome out;
  child.connection->on_message(packet.message, now(), out);
  apply(child, out);
}

void Agent::start(Identifier& child, const cm::Packet& packet, const cm::ServiceRequest& request) {
  child.answer = std::make_unique<cm::ServiceAnswer>(request.request, packet.message.transaction,
                                                     request.service);
}

void Agent::refuse(cm::LinkId link, const cm::Packet& packet, const cm::Request& request,
                   cm::RejectReason reason) {
  cm::Reject reject;
  reject.remote = request.local;
  reject.reason = reason;
  send(link, {packet.destination, packet.source, {packet.message.transaction, reject}});
}

void Agent::refuse(cm::LinkId link, const cm::Packet& packet, const cm::ServiceRequest& request,
                   cm::RejectReason reason) {
  cm::ServiceReply reply;
  reply.request = request.request;
  reply.service = request.service;
  reply.status = reason == cm::RejectReason::kInvalidServiceId ? cm::ServiceStatus::kUnsupported
                                                               : cm::ServiceStatus::kReject;
  send(link, {packet.destination, packet.source, {packet.message.transaction, reply}});
}

Identifier* Agent::addressee(cm::LinkId link, const cm::Packet& packet) {
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
      packet.message.body);
  const Gid host = link == kNetworkLink ? packet.source : Gid{};
  if (local.value == 0) {  // The peer gives up before it learnt our number.
    const auto found = by_question_.find({link, host, remote});
    return found == by_question_.end() ? nullptr : found->second;
  }
  const auto found = by_comm_id_.find(local);
  if (found == by_comm_id_.end() || found->second->link != link) return nullptr;
  // As the request went, so the answers come: from that host, to that address.
  if (link == kNetworkLink &&
      (found->second->remote_gid != host || found->second->local_gid != packet.destination)) {
    return nullptr;
  }
  return found->second;
}

void Agent::on_answer(cm::LinkId link, const cm::Packet& packet) {
  Identifier* const id = addressee(link, packet);
  if (id == nullptr) {
    if (link == kNetworkLink) count_refused(packet);
    return on_stray(link, packet);
  }
  const bool fits = id->connection ? id->connection->fits(packet.message)
                                   : id->query && id->query->fits(packet.message);
  if (!fits) return count_refused(packet);
  if (id->active && retry_elsewhere(*id, packet.message)) return;
  if (id->active && says_nobody(packet.message) && asks_again(*id)) return;
  const bool accepts = std::holds_alternative<cm::Reply>(packet.message.body) ||
                       std::holds_alternative<cm::ServiceReply>(packet.message.body);
  // The peer knows best which of its devices it uses.
  if (id->active && accepts) {
    id->remote_gid = packet.source;
    id->first_message.reset();
  }
  cm::Outcome out;
  if (id->connection) id->connection->on_message(packet.message, now(), out);
  if (id->query) id->query->on_message(packet.message, out);
  apply(*id, out);
}

/// For nobody here.
void Agent::on_stray(cm::LinkId link, const cm::Packet& packet) {
  if (const auto answer = cm::answer_to_stray(packet.message)) {
    send(link, {packet.destination, packet.source, *answer});
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
  if (!says_nobody(message) || id.link_fresh || id.off_host || !id.first_message) return false;
  const auto route = exchange_.reach(id.space, id.destination.port, id.destination.address, true);
  if (!route) return false;
  exchange_.release(id.link);
  id.link = route->link;
  id.link_fresh = true;
  send(id.link, {id.local_gid, id.remote_gid, *id.first_message});
  return true;
}

void Agent::on_link_gone(cm::LinkId link) {
  for (const auto& [handle, id] : ids_) {
    if (id->link != link) continue;
    if (!id->active) {
      if (id->connection) by_question_.erase(asker_of(*id, id->connection->remote()));
      if (id->answer) by_question_.erase(asker_of(*id, id->answer->question()));
    }
    id->link = {};
    cm::Outcome out;
    if (id->connection) id->connection->on_peer_gone(now(), out);
    if (id->query) id->query->on_peer_gone(out);
    apply(*id, out);
  }
}

}  // namespace weft::ucma

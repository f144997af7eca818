#include <algorithm>
#include <type_traits>
#include <variant>

#include "cm/manager.h"
#include "cm/names.h"
#include "cm/provenance.h"
#include "cm/stray.h"

// What arrives from other processes and other hosts. Nothing in a message is believed beyond what
// the link says, that who sent it is the process at the other end, or what the network says, that
// it came from that address.
namespace weft::cm {
namespace {

QpType type_of(const Request& request) {
  switch (request.transport) {
    case Transport::kReliable:
      return QpType::kReliable;
    case Transport::kUnreliable:
      return QpType::kUnreliable;
    case Transport::kExtended:
      return QpType::kExtendedReceive;
  }
  return QpType::kUnknown;
}
QpType type_of(const ServiceRequest&) { return QpType::kDatagram; }

CommId number_of(const Request& request) { return request.local; }
CommId number_of(const ServiceRequest& request) { return request.request; }

SocketAddress address_of(const IpHeader& header, const Gid& address, Port port) {
  return {header.ipv6 ? Family::kIpv6 : Family::kIpv4, address, port};
}

const Device& device_of(Devices& devices, const Identifier& listener, const Packet& packet,
                        const IpHeader& header) {
  if (const auto* device = devices.with_address(packet.destination)) return *device;
  if (const auto* device = devices.with_address(header.destination)) return *device;
  return listener.device != nullptr ? *listener.device : *devices.all().front();
}

/// Nobody listens there.
bool says_nobody(const Message& message) {
  const auto* reject = std::get_if<Reject>(&message.body);
  const auto* reply = std::get_if<ServiceReply>(&message.body);
  return (reject != nullptr && reject->reason == RejectReason::kInvalidServiceId) ||
         (reply != nullptr && reply->status == ServiceStatus::kUnsupported);
}

void count_refused(const Packet& packet, Actions& out) {
  out.push_back(CountRefused{packet.destination, packet.source});
}

void send_back(LinkId link, const Packet& packet, Message message, Actions& out) {
  out.push_back(Send{link, {packet.destination, packet.source, std::move(message)}});
}

void refuse(LinkId link, const Packet& packet, const Request& request, RejectReason reason,
            Actions& out) {
  Reject reject;
  reject.remote = request.local;
  reject.reason = reason;
  send_back(link, packet, {packet.message.transaction, reject}, out);
}

void refuse(LinkId link, const Packet& packet, const ServiceRequest& request, RejectReason reason,
            Actions& out) {
  ServiceReply reply;
  reply.request = request.request;
  reply.service = request.service;
  reply.status = reason == RejectReason::kInvalidServiceId ? ServiceStatus::kUnsupported
                                                           : ServiceStatus::kReject;
  send_back(link, packet, {packet.message.transaction, reply}, out);
}

}  // namespace

Manager::Asker Manager::asker_of(const Identifier& id, CommId number) {
  return {id.link, id.link == kNetworkLink ? id.remote_gid : Gid{}, number};
}

void Manager::on_message(const Arrival& arrival, Nanoseconds now, Actions& out) {
  const Packet& packet = *arrival.packet;
  // Whoever handed it over has done its part: answers go to the host that it came from.
  const LinkId link = packet.from_network ? kNetworkLink : arrival.link;
  if (packet.from_network && !cm::is_credible(packet)) return count_refused(packet, out);
  const auto on_credible_question = [&](const auto& question) {
    if (!is_credible(arrival, question)) return count_refused(packet, out);
    on_question(link, packet, question, now, out);
  };
  if (const auto* request = std::get_if<Request>(&packet.message.body)) {
    on_credible_question(*request);
  } else if (const auto* service = std::get_if<ServiceRequest>(&packet.message.body)) {
    on_credible_question(*service);
  } else {
    on_answer(link, packet, now, out);
  }
}

/// A question must be about the port that was called. Of another host, the frame tells both
/// addresses; on this host they must be this machine's, or those of the devices of both ends.
template <class Question>
bool Manager::is_credible(const Arrival& arrival, const Question& question) {
  const Packet& packet = *arrival.packet;
  const auto header = parse_ip_header(question.private_data);
  const Gid& asked = packet.from_network || !header ? packet.destination : header->destination;
  const auto names = names_at(space_of(question.service), port_of(question.service), asked);
  if (std::ranges::find(names, arrival.called_name) == names.end()) return false;
  if (packet.from_network || !header) return true;
  LocalAddresses local(devices_);
  const auto known = [&](const Gid& address, const Gid& device) {
    return address == device || local.reaches(address);
  };
  return known(header->source, packet.source) && known(header->destination, packet.destination);
}

template <class Question>
void Manager::on_question(LinkId link, const Packet& packet, const Question& question,
                          Nanoseconds now, Actions& out) {
  const Asker asked{link, packet.from_network ? packet.source : Gid{}, number_of(question)};
  if (const auto known = by_question_.find(asked); known != by_question_.end()) {
    Outcome outcome;
    Identifier& id = *known->second;
    if (id.connection && !id.connection->on_message(packet.message, now, outcome)) {
      return count_refused(packet, out);
    }
    if (id.answer) id.answer->on_question(outcome);
    return apply(id, outcome, now, out);
  }
  const auto header = parse_ip_header(question.private_data);
  Identifier* const listener =
      header ? find_listener(question.service, header->destination) : nullptr;
  if (listener == nullptr && header &&
      is_about_to_listen(question.service, header->destination, now)) {
    return;  // the peer asks again
  }
  if (listener == nullptr) {
    return refuse(link, packet, question, RejectReason::kInvalidServiceId, out);
  }
  if (listener->qp_type != type_of(question)) {
    return refuse(link, packet, question, RejectReason::kConsumer, out);
  }
  const Device& device = device_of(devices_, *listener, packet, *header);
  if constexpr (std::is_same_v<Question, Request>) {
    // It would send frames that this end cannot take, and neither would learn why nothing arrives.
    if (packet.from_network && question.mtu_code > device.mtu_code) {
      return refuse(link, packet, question, RejectReason::kInvalidPathMtu, out);
    }
  }
  // No answer at all: the peer asks again, and then there may be room.
  if (listener->backlog_left == 0 || (packet.from_network && !claim_block())) return;
  const auto created = create(listener->space, type_of(question));
  if (!created) return;
  Identifier& child = **created;
  child.state = Identifier::State::kConnecting;
  child.source = address_of(*header, header->destination, listener->source.port);
  child.destination = address_of(*header, header->source, header->source_port);
  use(child, device);
  child.remote_gid = packet.source;
  child.off_host = packet.from_network;
  child.traffic_class = listener->traffic_class;
  child.ack_timeout = listener->ack_timeout;
  child.link = link;
  by_question_[asked] = &child;
  --listener->backlog_left;
  start(child, packet, question, now, out);
  const auto data = std::span(question.private_data).subspan(kIpHeaderBytes);
  out.push_back(Notify{listener->handle,
                       {.kind = Event::Kind::kConnectRequest,
                        .child = child.handle,
                        .private_data = {data.begin(), data.end()}}});
}

void Manager::start(Identifier& child, const Packet& packet, const Request&, Nanoseconds now,
                    Actions& out) {
  Outcome outcome;
  make_connection(child).on_message(packet.message, now, outcome);
  apply(child, outcome, now, out);
}

void Manager::start(Identifier& child, const Packet& packet, const ServiceRequest& request,
                    Nanoseconds, Actions&) {
  child.answer =
      std::make_unique<ServiceAnswer>(request.request, packet.message.transaction, request.service);
}

Identifier* Manager::addressee(LinkId link, const Packet& packet) {
  CommId local, remote;
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

void Manager::on_answer(LinkId link, const Packet& packet, Nanoseconds now, Actions& out) {
  Identifier* const id = addressee(link, packet);
  if (id == nullptr) {
    if (link == kNetworkLink) count_refused(packet, out);
    if (auto answer = answer_to_stray(packet.message)) {
      send_back(link, packet, std::move(*answer), out);
    }
    return;
  }
  const bool fits = id->connection ? id->connection->fits(packet.message)
                                   : id->query && id->query->fits(packet.message);
  if (!fits) return count_refused(packet, out);
  if (id->active && retry_elsewhere(*id, packet.message, out)) return;
  if (id->active && says_nobody(packet.message) && asks_again(*id, now)) return;
  const bool accepts = std::holds_alternative<Reply>(packet.message.body) ||
                       std::holds_alternative<ServiceReply>(packet.message.body);
  // The peer knows best which of its devices it uses.
  if (id->active && accepts) {
    id->remote_gid = packet.source;
    id->first_message.reset();
  }
  Outcome outcome;
  if (id->connection) id->connection->on_message(packet.message, now, outcome);
  if (id->query) id->query->on_message(packet.message, outcome);
  apply(*id, outcome, now, out);
}

/// A link that existed already may lead to a process that had the port before.
bool Manager::retry_elsewhere(Identifier& id, const Message& message, Actions& out) {
  if (!says_nobody(message) || id.link_fresh || id.off_host || !id.first_message) return false;
  const auto route = links_.reach(id.space, id.destination.port, id.destination.address, true);
  if (!route) return false;
  out.push_back(Release{id.link});
  id.link = route->link;
  id.link_fresh = true;
  out.push_back(Send{id.link, {id.local_gid, id.remote_gid, *id.first_message}});
  return true;
}

void Manager::on_link_gone(LinkId link, Nanoseconds now, Actions& out) {
  for (const auto& [handle, id] : ids_) {
    if (id->link != link) continue;
    if (!id->active) {
      if (id->connection) by_question_.erase(asker_of(*id, id->connection->remote()));
      if (id->answer) by_question_.erase(asker_of(*id, id->answer->question()));
    }
    id->link = {};
    Outcome outcome;
    if (id->connection) id->connection->on_peer_gone(now, outcome);
    if (id->query) id->query->on_peer_gone(outcome);
    apply(*id, outcome, now, out);
  }
}

}  // namespace weft::cm

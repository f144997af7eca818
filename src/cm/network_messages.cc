#include "cm/network_messages.h"

#include <string>
#include <variant>
#include <vector>

#include "cm/allowance.h"
#include "cm/names.h"
#include "cm/provenance.h"
#include "cm/service_id.h"
#include "cm/stray.h"
#include "host/local_socket.h"
#include "obs/log.h"

namespace weft::cm {
namespace {

/// The port that a question is about, at the address where its frame arrived.
template <class Question>
std::vector<std::string> names_of_port(const Question& question, const Gid& destination) {
  const auto names = names_at(space_of(question.service), port_of(question.service), destination);
  return {names.begin(), names.end()};
}

/// None for 0: the peer gives up before it learnt our number, and nobody knows whose it was.
std::vector<std::string> names_of_number(CommId number) {
  if (block_of(number).value == 0) return {};
  return {name_of(block_of(number))};
}

std::vector<std::string> names_for(const Request& request, const Gid& destination) {
  return names_of_port(request, destination);
}
std::vector<std::string> names_for(const ServiceRequest& request, const Gid& destination) {
  return names_of_port(request, destination);
}
std::vector<std::string> names_for(const ServiceReply& reply, const Gid&) {
  return names_of_number(reply.request);
}
template <class Answer>
std::vector<std::string> names_for(const Answer& answer, const Gid&) {
  return names_of_number(answer.remote);
}

class Relay final : public mad::Agent {
 public:
  void on_datagram(mad::Gsi& gsi, const mad::Datagram& datagram) override {
    // Handing over takes system calls, in the middle of a program's poll.
    if (!allowance_.take(datagram.arrived_at)) {
      return gsi.counters().add(obs::Counter::kDroppedMessages);
    }
    auto message = parse(datagram.bytes);
    if (!message) {
      return obs::log().debug("connection manager: a datagram that is no message");
    }
    const Packet packet{datagram.source, datagram.destination, std::move(*message), true};
    // No answer either: it would go to whoever was named.
    if (!is_credible(packet)) return gsi.counters().add(obs::Counter::kRefusedMessages);
    if (forward_locally(packet) != Forwarded::kNobody) return;
    if (const auto answer = answer_to_stray(packet.message)) {
      send_to_network(gsi, {packet.destination, packet.source, *answer});
    }
  }

 private:
  /// Who asks in vain asks again: a flood delays connections, and does not stop the traffic.
  Allowance allowance_{2000, 10'000};
};

}  // namespace

Forwarded forward_locally(const Packet& packet) {
  const auto names = std::visit(
      [&](const auto& body) { return names_for(body, packet.destination); }, packet.message.body);
  const auto bytes = emit_packet(packet);
  for (const std::string& name : names) {
    const auto socket = host::LocalSocket::connect(name);
    const bool nobody = !socket && (socket.error().code == Errc::kNotFound ||
                                    socket.error().code == Errc::kNotPermitted);
    if (nobody) continue;
    if (!socket) return Forwarded::kNotNow;
    return socket->send(bytes, {}) ? Forwarded::kTaken : Forwarded::kNotNow;
  }
  return Forwarded::kNobody;
}

bool send_to_network(mad::Gsi& gsi, const Packet& packet) {
  return gsi.send(packet.source, packet.destination, emit(packet.message));
}

void receive_from_network(mad::Agents& agents) {
  static auto& relay = *new Relay;
  agents.set(mad::Class::kCommunication, relay);
}

}  // namespace weft::cm

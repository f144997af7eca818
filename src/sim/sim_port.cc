#include "sim/sim_port.h"

#include <utility>

#include "base/assert.h"
#include "wire/datagram.h"

namespace weft::sim {
namespace {

/// The flow as the receiver reads it from the headers.
network::Flow flow_of(const wire::Datagram& datagram) {
  network::Flow flow;
  wire::Udp udp;
  udp.read(datagram.udp_header);
  flow.source_port = udp.source_port;
  if (datagram.is_ipv4()) {
    const wire::Ipv4 ip = wire::Ipv4::parse(datagram.ip_header).value();
    flow.source = ip.source_gid();
    flow.destination = ip.destination_gid();
    flow.traffic_class = ip.type_of_service;
    flow.hop_limit = ip.time_to_live;
  } else {
    const wire::Ipv6 ip = wire::Ipv6::parse(datagram.ip_header).value();
    flow.source = ip.source;
    flow.destination = ip.destination;
    flow.traffic_class = ip.traffic_class;
    flow.hop_limit = ip.hop_limit;
    flow.flow_label = ip.flow_label;
  }
  return flow;
}

void build(const port::Outgoing& out, SimFrame& to) {
  const std::size_t transport_bytes = out.frame->packet_bytes() + wire::kIcrcSize;
  const std::size_t packet_at = network::emit_headers(out.flow, transport_bytes, to.bytes);
  to.flow = out.flow;
  to.packet_at = static_cast<std::uint16_t>(packet_at);
  to.size = static_cast<std::uint16_t>(packet_at + transport_bytes);
  const bool whole = network::emit_packet(*out.frame, std::span(to.bytes).subspan(packet_at));
  WEFT_ASSERT(whole);  // simulated memory does not vanish under a view
}

}  // namespace

SimPort::SimPort(Stage& stage, Network& network, std::uint32_t endpoint, const Gid& address,
                 Mtu max_mtu, std::function<void()> wake)
    : stage_(stage),
      network_(network),
      endpoint_(endpoint),
      address_(address),
      max_mtu_(max_mtu),
      wake_(std::move(wake)) {
  network_.attach(endpoint_, this);
}

SimPort::~SimPort() {
  network_.attach(endpoint_, nullptr);
  while (SimFrame* frame = inbox_.pop()) network_.pool().give_back(frame);
}

port::SendOutcome SimPort::send(std::span<const port::Outgoing> frames) {
  for (const port::Outgoing& out : frames) {
    SimFrame* frame = network_.pool().take();
    build(out, *frame);
    frame->intact = network_.checksums() == Checksums::kOffload;
    if (!frame->intact) seal(*frame);
    network_.transmit(endpoint_, frame);
  }
  return {port::SendStatus::kTaken, frames.size()};
}

void SimPort::hand_up(const SimFrame& frame, port::Receiver& receiver) {
  if (frame.intact) {
    stage_.trace.frame(What::kArrived, frame);
    return receiver.on_frame({frame.flow, frame.packet()});
  }
  const auto datagram = wire::check_datagram(frame.all());
  if (datagram) {
    stage_.trace.frame(What::kArrived, frame);
    return receiver.on_frame({flow_of(*datagram), datagram->packet});
  }
  ++stage_.stats.bad_checksums;
  if (datagram.error() == wire::ParseError::kBadIcrc) {
    stage_.trace.frame(What::kBadChecksum, frame);
    receiver.on_bad_checksum();
  } else {
    stage_.trace.frame(What::kMalformed, frame);
    receiver.on_malformed();
  }
}

std::size_t SimPort::receive(port::Receiver& receiver, std::size_t max) {
  std::size_t n = 0;
  while (n < max) {
    SimFrame* frame = inbox_.pop();
    if (frame == nullptr) break;
    hand_up(*frame, receiver);
    network_.pool().give_back(frame);
    ++n;
  }
  return n;
}

}  // namespace weft::sim

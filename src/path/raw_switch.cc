#include "path/raw_switch.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "memory/flight.h"
#include "network/neighbour_answer.h"
#include "transport/raw.h"

namespace weft::path {
namespace {

using network::RawClaim;
using port::RawBytes;
using wire::RawFault;
using wire::RawPacket;

constexpr std::size_t kFramesPerTurn = 128;
constexpr std::uint32_t kFrameHeaders = wire::Ethernet::kSize + 4;

wire::Ethernet::Address bytes_of(const LinkAddress& address) {
  wire::Ethernet::Address bytes;
  std::ranges::transform(address, bytes.begin(), [](std::uint8_t byte) { return std::byte{byte}; });
  return bytes;
}

bool is_loopback(const Gid& address) {
  constexpr Gid kLoopback6{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  return address.is_ipv4() ? address.raw[12] == 127 : address == kLoopback6;
}

bool is_group(const RawPacket& packet) {
  return (static_cast<unsigned>(packet.link_destination[0]) & 1u) != 0 ||
         packet.destination.is_multicast();
}

}  // namespace

RawSwitch::RawSwitch(RawSwitchSetup setup)
    : port_(std::move(setup.port)),
      address_(setup.address),
      table_(*setup.table),
      counters_(*setup.counters),
      claims_(std::make_shared<const Claims>()) {}

// ---- claims -----------------------------------------------------------------------------------

std::shared_ptr<const RawSwitch::Claims> RawSwitch::claims() const {
  const std::lock_guard guard(claims_lock_);
  return claims_;
}

/// With claims_lock_ held.
void RawSwitch::publish(Claims claims) {
  claims_ = std::make_shared<const Claims>(std::move(claims));
  port_->set_claims(*claims_);
}

Result<network::RawClaims::Id> RawSwitch::add(const RawClaim& claim) {
  const std::lock_guard guard(claims_lock_);
  Claims claims = *claims_;
  const auto id = claims.add(claim);
  if (id) publish(std::move(claims));
  return id;
}

bool RawSwitch::remove(network::RawClaims::Id id) {
  const std::lock_guard guard(claims_lock_);
  Claims claims = *claims_;
  const bool removed = claims.remove(id);
  if (removed) publish(std::move(claims));
  return removed;
}

void RawSwitch::remove_all_of(Qpn qpn) {
  const std::lock_guard guard(claims_lock_);
  Claims claims = *claims_;
  claims.remove_all_of(qpn);
  if (claims.rows().size() != claims_->rows().size()) publish(std::move(claims));
}

// ---- sending ----------------------------------------------------------------------------------

std::uint32_t RawSwitch::max_message(RawFraming framing) const {
  return port_->max_packet() + (framing == RawFraming::kEthernet ? kFrameHeaders : 0);
}

bool RawSwitch::may_leave(const Claims& claims, const queue::QueuePair& qp,
                          const RawPacket& packet) {
  if (packet.version == 0 || packet.fault != RawFault::kNone) {
    count_fault(packet);
    return false;
  }
  // One that has no address yet says so.
  if (packet.source == Gid{} || packet.source == address_ ||
      claims.may_send_from(qp.qpn, packet.source)) {
    return true;
  }
  counters_.add(obs::Counter::kRawSpoofed);
  return false;
}

/// Whether queue pairs of this port may have claimed it. A wildcard is for what arrives: what is
/// for others leaves.
bool RawSwitch::is_here(const Claims& claims, const RawPacket& packet, RawFraming framing) const {
  if (is_group(packet)) return true;
  if (framing == RawFraming::kPacket) return claims.claims_address(packet.destination);
  return packet.link_destination == bytes_of(port_->link_address()) ||
         claims.claims_link_address(packet.link_destination);
}

bool RawSwitch::give_locally(const Claims& claims, const RawPacket& packet, RawBytes message,
                             RawFraming framing) {
  if (framing == RawFraming::kEthernet) return give(claims, packet, message);
  // Those who receive frames get one that came from here.
  std::vector<std::byte> frame(wire::Ethernet::kSize + message.size());
  wire::Ethernet header;
  header.destination = header.source = bytes_of(port_->link_address());
  header.type = packet.version == 6 ? wire::kEtherTypeIpv6 : wire::kEtherTypeIpv4;
  header.emit(frame);
  std::ranges::copy(message, frame.begin() + wire::Ethernet::kSize);
  return give(claims, wire::parse_raw_frame(frame), frame);
}

port::SendOutcome RawSwitch::send(const queue::QueuePair& qp, std::span<const RawBytes> messages) {
  const RawFraming framing = qp.raw_framing;
  const bool packets = framing == RawFraming::kPacket;
  const bool loops = port_->returns_own();
  const auto put = [&](std::span<const RawBytes> some) {
    return packets ? port_->send_packets(some) : port_->send(some);
  };
  if (!packets && loops) return put(messages);
  const auto claims = this->claims();
  std::size_t done = 0;
  // Runs of messages that leave go together.
  for (std::size_t at = 0; at < messages.size(); ++at) {
    const RawPacket packet =
        packets ? wire::parse_raw_packet(messages[at]) : wire::parse_raw_frame(messages[at]);
    bool leaves = !packets || may_leave(*claims, qp, packet);
    if (leaves && !loops && is_here(*claims, packet, framing)) {
      leaves = !give_locally(*claims, packet, messages[at], framing) || is_group(packet);
    }
    if (leaves) continue;
    const auto outcome = put(messages.subspan(done, at - done));
    if (outcome.status != port::SendStatus::kTaken) return {outcome.status, done + outcome.taken};
    done = at + 1;
  }
  const auto outcome = put(messages.subspan(done));
  return {outcome.status, done + outcome.taken};
}

// ---- receiving --------------------------------------------------------------------------------

bool RawSwitch::poll(bool& missed) {
  if (!receive_lock_.try_lock()) {
    missed = true;
    return false;
  }
  const std::lock_guard guard(receive_lock_, std::adopt_lock);
  receiving_by_ = claims();
  const std::size_t n = port_->receive(*this, kFramesPerTurn);
  memory::Flight::clear(memory::Hold::kPeer);
  counters_.add(obs::Counter::kFramesReceived, n);
  return n > 0;
}

void RawSwitch::on_cut_frame() { counters_.add(obs::Counter::kRawMalformed); }

void RawSwitch::on_raw_frame(RawBytes frame, bool needs_checksum) {
  const RawPacket packet = wire::parse_raw_frame(frame);
  if (needs_checksum) {
    mended_.assign(frame.begin(), frame.end());
    wire::fill_upper_checksum(std::span(mended_).subspan(packet.network_at), packet);
    frame = mended_;
  }
  const bool from_wire = !port_->returns_own();
  if (from_wire && is_spoofed(packet)) return counters_.add(obs::Counter::kRawSpoofed);
  if (from_wire) {
    const auto asked = network::asked_for(frame, packet);
    if (asked && *asked != address_ && receiving_by_->answers_for(*asked)) {
      const auto answer = network::neighbour_answer(frame, packet, *asked, port_->link_address());
      const RawBytes bytes(answer);
      port_->send({&bytes, 1});
      return;
    }
  }
  if (give(*receiving_by_, packet, frame)) return;
  if (packet.fault != RawFault::kNone) return count_fault(packet);
  counters_.add(obs::Counter::kRawUnclaimed);
}

bool RawSwitch::is_spoofed(const RawPacket& packet) const {
  if (packet.version == 0 || packet.source == Gid{}) return false;
  return packet.source == address_ || is_loopback(packet.source) ||
         receiving_by_->claims_address(packet.source);
}

bool RawSwitch::give(const Claims& claims, const RawPacket& packet, RawBytes frame) {
  return claims.match(packet,
                      [&](const Claims::Row& row) { deliver(row.claim.qpn, packet, frame); });
}

void RawSwitch::deliver(Qpn qpn, const RawPacket& packet, RawBytes frame) {
  queue::QueuePair* const qp = table_.find(qpn);
  if (qp == nullptr) return;
  if (qp->service == Service::kRawDatagram) {
    RawBytes message = frame;
    if (qp->raw_framing == RawFraming::kPacket) {
      message = frame.subspan(packet.network_at, packet.bytes);
    }
    counters_.add(obs::Counter::kBytesReceived, message.size());
    const std::lock_guard guard(qp->recv_lock);
    transport::on_raw(*qp, packet, message);
  }
  memory::Flight::clear(memory::Hold::kPeer);
}

void RawSwitch::count_fault(const RawPacket& packet) {
  switch (packet.fault) {
    case RawFault::kBadExtension:
    case RawFault::kTooManyExtensions:
      return counters_.add(obs::Counter::kRawBadExtensions);
    case RawFault::kJumbo:
      return counters_.add(obs::Counter::kRawJumbos);
    case RawFault::kBadSource:
      return counters_.add(obs::Counter::kRawSpoofed);
    default:
      return counters_.add(obs::Counter::kRawMalformed);
  }
}

}  // namespace weft::path

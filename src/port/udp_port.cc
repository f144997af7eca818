#include "port/udp_port.h"

#include <algorithm>
#include <utility>

#include "base/per_thread.h"
#include "memory/guard.h"
#include "network/address.h"
#include "port/local_interface.h"
#include "port/udp_batch.h"

namespace weft::port {
namespace {

Result<AddressShare::Joined> open_receive_side(const Gid& address, std::uint32_t interface,
                                               Sharing sharing, std::optional<unsigned> slot) {
  if (sharing == Sharing::kShared) return AddressShare::join(address, interface, slot);
  auto socket = open_receive_socket(address, interface, sharing);
  if (!socket) return tl::unexpected(socket.error());
  enable_gro(*socket);
  return AddressShare::Joined{std::move(*socket), nullptr};
}

/// One after another, from the first: all of them, or up to the first that is not taken.
template <class Send>
SendOutcome each_by_itself(std::span<const Outgoing> frames, Send send) {
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const SendOutcome outcome = send(frames.subspan(i, 1));
    if (outcome.status != SendStatus::kTaken) return {outcome.status, i + outcome.taken};
  }
  return {SendStatus::kTaken, frames.size()};
}

}  // namespace

Result<std::unique_ptr<UdpPort>> UdpPort::open(const Gid& address, Sharing sharing,
                                               std::optional<unsigned> slot) {
  const bool unspecified = address == Gid{} || address == Gid::ipv4(0, 0, 0, 0);
  const bool multicast =
      address.is_ipv4() ? (address.raw[12] & 0xF0) == 0xE0 : address.raw[0] == 0xFF;
  if (unspecified || multicast) {
    return fail(Errc::kInvalidArgument,
                "address " + network::to_string(address) +
                    ": names no single port, and each frame's checksum covers both addresses; use "
                    "one that `ip address` lists");
  }
  const auto interface = find_interface(address);
  const std::uint32_t index = interface ? interface->index : 0;
  auto joined = open_receive_side(address, index, sharing, slot);
  if (!joined) return tl::unexpected(joined.error());
  auto send_socket = open_send_socket(address, index, 0);
  if (!send_socket) return tl::unexpected(send_socket.error());
  memory::install_guard();
  return std::unique_ptr<UdpPort>(new UdpPort(address, index, mtu_of_address(address, interface),
                                              std::move(joined->receive_socket),
                                              std::move(*send_socket), std::move(joined->share)));
}

UdpPort::UdpPort(const Gid& address, std::uint32_t interface, Mtu max_mtu, host::Fd receive_socket,
                 SendSocket send_socket, std::unique_ptr<AddressShare> share)
    : address_(address),
      interface_(interface),
      max_mtu_(max_mtu),
      first_send_socket_(std::move(send_socket)),
      connected_sender_(address, interface),
      receive_side_(address, interface, std::move(receive_socket), std::move(share)) {}

const SendSocket& UdpPort::send_socket(const network::Flow& flow) {
  const std::size_t index = flow.source_port % kSendSockets;
  if (index == 0) return first_send_socket_;
  SendSlot& slot = more_send_sockets_[index - 1];
  std::call_once(slot.once, [&] {
    if (auto opened = open_send_socket(address_, interface_, index)) {
      slot.opened = std::move(*opened);
    }
  });
  return slot.opened ? *slot.opened : first_send_socket_;
}

SendOutcome UdpPort::send(std::span<const Outgoing> frames) {
  std::size_t taken = 0;
  while (taken < frames.size()) {
    if (frames[taken].flow.is_ipv4() != address_.is_ipv4()) {
      ++taken;
      continue;
    }
    const auto rest = frames.subspan(taken);
    const bool together = gso_.load(std::memory_order_relaxed);
    const SendOutcome outcome = send_batch(rest.first(together ? UdpBatch::length(rest) : 1));
    taken += outcome.taken;
    if (outcome.status != SendStatus::kTaken) return {outcome.status, taken};
  }
  return {SendStatus::kTaken, taken};
}

network::Flow UdpPort::flow_on_wire(const network::Flow& flow) {
  network::Flow out = flow;
  out.source = address_;
  const auto connected = connected_sender_.source_port(flow);
  out.source_port = connected ? *connected : send_socket(flow).port;
  out.hop_limit = std::max(flow.hop_limit, kLeastHopLimit);
  return out;
}

LinkState UdpPort::link_state() const {
  if (interface_ == 0) return LinkState::kUp;  // it never was listed
  const auto interface = find_interface(address_);
  if (!interface) return LinkState::kAddressGone;
  return interface->up ? LinkState::kUp : LinkState::kDown;
}

/// All in one call, if the way out takes them so.
SendOutcome UdpPort::send_batch(std::span<const Outgoing> frames) {
  UdpBatch* const batch = base::PerThread<UdpBatch>::get();
  if (batch == nullptr) return {SendStatus::kBusy, 0};  // no memory
  if (auto turn = connected_sender_.turn(frames.front().flow)) {
    if (send_connected(*turn, *batch, frames)) return {SendStatus::kTaken, frames.size()};
  }
  const SendSocket& socket = send_socket(frames.front().flow);
  network::Flow flow = frames.front().flow;
  flow.source = address_;
  flow.source_port = socket.port;
  const SocketAddress to = to_socket_address({flow.destination, wire::kRoceUdpPort}, interface_);
  const std::size_t readable = batch->build(frames, flow, 0);  // what is unconnected does not count
  if (readable < frames.size()) {
    SendOutcome before;
    if (readable > 0) before = send_batch(frames.first(readable));
    if (before.status != SendStatus::kTaken) return before;
    return {SendStatus::kFaulted, readable};
  }
  const int error_number = batch->send(socket.socket.get(), &to);
  if (error_number == 0) return {SendStatus::kTaken, frames.size()};
  const SendError error = classify_send_error(error_number);
  if (error == SendError::kBusy) return {SendStatus::kBusy, 0};
  if (frames.size() > 1) {
    // Which frame it was, or whether this way takes no batches, shows when each goes by itself.
    if (refuses_gso(error_number)) gso_.store(false, std::memory_order_relaxed);
    return each_by_itself(frames, [this](auto one) { return send_batch(one); });
  }
  if (error == SendError::kFaulted) return {SendStatus::kFaulted, 0};
  return {SendStatus::kTaken, 1};  // the network lost it
}

/// False: nothing was sent, and the other sockets tell why.
bool UdpPort::send_connected(ConnectedSender::Turn& turn, UdpBatch& batch,
                             std::span<const Outgoing> frames) {
  network::Flow flow = frames.front().flow;
  flow.source = address_;
  flow.source_port = turn.source_port();
  if (batch.build(frames, flow, turn.identification()) < frames.size()) return false;
  if (batch.send(turn.fd(), nullptr) != 0) {
    turn.on_failed();
    return false;
  }
  turn.on_sent();
  return true;
}

}  // namespace weft::port

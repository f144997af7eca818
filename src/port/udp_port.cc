#include "port/udp_port.h"

#include <algorithm>
#include <utility>

#include "memory/guard.h"
#include "network/address.h"
#include "port/local_interface.h"
#include "port/udp_inbox.h"
#include "port/udp_run.h"

namespace weft::port {
namespace {

/// 0 means the same, not beyond this link, but the kernel refuses it.
constexpr std::uint8_t kLeastHopLimit = 1;

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

Result<std::unique_ptr<UdpPort>> UdpPort::open(const Gid& address) {
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
  auto receive_socket = open_receive_socket(address, index);
  if (!receive_socket) return tl::unexpected(receive_socket.error());
  auto send_socket = open_send_socket(address, index, 0);
  if (!send_socket) return tl::unexpected(send_socket.error());
  memory::install_guard();
  return std::unique_ptr<UdpPort>(new UdpPort(address, index, mtu_of_address(address, interface),
                                              std::move(*receive_socket), std::move(*send_socket)));
}

UdpPort::UdpPort(const Gid& address, std::uint32_t interface, Mtu max_mtu, Socket receive_socket,
                 SendSocket send_socket)
    : address_(address),
      interface_(interface),
      max_mtu_(max_mtu),
      receive_socket_(std::move(receive_socket)),
      first_send_socket_(std::move(send_socket)),
      inbox_(std::make_unique<UdpInbox>(address)) {}

UdpPort::~UdpPort() = default;

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
    const SendOutcome outcome = send_run(frames.subspan(taken));
    taken += outcome.taken;
    if (outcome.status != SendStatus::kTaken) return {outcome.status, taken};
  }
  return {SendStatus::kTaken, taken};
}

network::Flow UdpPort::flow_on_wire(const network::Flow& flow) {
  network::Flow out = flow;
  out.source = address_;
  out.source_port = send_socket(flow).port;
  out.hop_limit = std::max(flow.hop_limit, kLeastHopLimit);
  return out;
}

/// The first frames, as many as go together in one call.
SendOutcome UdpPort::send_run(std::span<const Outgoing> frames) {
  const bool together = segments_.load(std::memory_order_relaxed);
  return send_together(frames.first(together ? UdpRun::length(frames) : 1));
}

SendOutcome UdpPort::send_together(std::span<const Outgoing> frames) {
  const SendSocket& socket = send_socket(frames.front().flow);
  network::Flow flow = frames.front().flow;
  flow.source = address_;
  flow.source_port = socket.port;
  const SocketAddress to = to_socket_address({flow.destination, wire::kRoceUdpPort}, interface_);
  UdpRun run;
  const std::size_t readable = run.build(frames, flow, to);
  if (readable < frames.size()) {
    SendOutcome before;
    if (readable > 0) before = send_together(frames.first(readable));
    if (before.status != SendStatus::kTaken) return before;
    return {SendStatus::kFaulted, readable};
  }
  const int error_number = run.send(socket.socket.fd());
  if (error_number == 0) return {SendStatus::kTaken, frames.size()};
  const SendError error = classify_send_error(error_number);
  if (error == SendError::kBusy) return {SendStatus::kBusy, 0};
  if (frames.size() > 1) {
    // Which frame it was, or whether this way takes no runs, shows when each goes by itself.
    if (refuses_segments(error_number)) segments_.store(false, std::memory_order_relaxed);
    return each_by_itself(frames, [this](auto one) { return send_together(one); });
  }
  if (error == SendError::kFaulted) return {SendStatus::kFaulted, 0};
  return {SendStatus::kTaken, 1};  // the network lost it
}

std::size_t UdpPort::receive(Receiver& receiver, std::size_t max) {
  std::size_t handed_up = 0, fills = 0;
  for (std::size_t seen = 0; seen < max; ++seen) {
    if (!inbox_->has_frames()) {
      // A datagram by itself after a pause is likely to be the only one: to look for another would
      // delay the program that waits for this one.
      if (fills > 0 && !busy_) break;
      if (!inbox_->fill(receive_socket_.fd())) {
        if (fills == 0) busy_ = false;
        break;
      }
      if (++fills > 1 || inbox_->frames_left() > kFewFrames) busy_ = true;
    }
    const auto incoming = inbox_->next();
    if (incoming) {
      ++handed_up;
      receiver.on_frame(*incoming);
    } else if (incoming.error() == Drop::kBadChecksum) {
      receiver.on_bad_checksum();
    } else {
      receiver.on_malformed();
    }
  }
  left_over_.store(inbox_->has_frames(), std::memory_order_release);
  return handed_up;
}

}  // namespace weft::port

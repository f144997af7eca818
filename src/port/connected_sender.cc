#include "port/connected_sender.h"

#include <linux/net_tstamp.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/big_endian.h"
#include "port/address_share.h"
#include "wire/ipv4.h"
#include "wire/udp.h"

namespace weft::port {
namespace {

bool set_timestamps(int fd, int what) {
  return setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &what, sizeof what) == 0;
}

bool connect_to(int fd, const SocketAddress& to) { return connect(fd, &to.generic, to.size) == 0; }

/// The identification in a copy of a datagram that we sent, which begins with whatever headers the
/// device needs.
std::optional<std::uint16_t> identification_in(std::span<const std::byte> copy,
                                               std::size_t payload) {
  const std::size_t headers = wire::Ipv4::kSize + wire::Udp::kSize;
  if (copy.size() < headers + payload) return std::nullopt;
  const std::byte* ip = copy.data() + (copy.size() - headers - payload);
  constexpr std::byte kVersionAndLength{0x45}, kUdp{17};
  if (ip[0] != kVersionAndLength || ip[9] != kUdp) return std::nullopt;
  return base::load_be<std::uint16_t>(ip + 4);
}

}  // namespace

std::optional<ConnectedSender::Turn> ConnectedSender::wait_for_turn(std::uint64_t key) {
  Turn turn(*this);
  if (flow_.load(std::memory_order_relaxed) != key) return std::nullopt;
  candidate_ = 0;
  return turn;
}

std::optional<std::uint16_t> ConnectedSender::source_port(const network::Flow& flow) {
  if (flow_.load(std::memory_order_acquire) != key_of(flow)) return std::nullopt;
  const std::lock_guard guard(lock_);
  return socket_ ? std::optional(socket_->port) : std::nullopt;
}

void ConnectedSender::count_call(const network::Flow& flow, std::uint64_t key) {
  if (!lock_.try_lock()) return;
  const std::lock_guard guard(lock_, std::adopt_lock);
  if (std::exchange(candidate_, key) != key) calls_ = 0;
  if (++calls_ < kCallsToConnect << std::min(failures_, kMostDoublings)) return;
  calls_ = 0;
  flow_.store(0, std::memory_order_release);  // whoever has it has been silent meanwhile
  if (!flow.destination.is_multicast() && connect_for(flow)) {
    flow_.store(key, std::memory_order_release);
  } else {
    ++failures_;
  }
}

bool ConnectedSender::connect_for(const network::Flow& flow) {
  // Another source port each time: somebody may be listening for the last one
  // (connected_receiver.h).
  auto opened = open_connected_sender(address_, interface_, opened_++);
  if (!opened) return false;
  socket_ = std::move(*opened);
  const auto to = to_socket_address({flow.destination, wire::kRoceUdpPort}, interface_);
  return connect_to(socket_->socket.get(), to) && (!address_.is_ipv4() || learn_identification());
}

/// Whoever asks when a datagram leaves gets a copy of it back, with its headers. It goes to our own
/// address, and means nothing there.
std::optional<std::uint16_t> ConnectedSender::next_identification() {
  const int fd = socket_->socket.get();
  const auto probe = AddressShare::blank_probe();
  const auto here = to_socket_address({address_, wire::kRoceUdpPort}, interface_);
  if (sendto(fd, probe.data(), probe.size(), MSG_DONTWAIT, &here.generic, here.size) < 0) {
    return std::nullopt;
  }
  std::array<std::byte, 256> copy;
  const ssize_t got = recv(fd, copy.data(), copy.size(), MSG_ERRQUEUE | MSG_DONTWAIT);
  if (got < 0) return std::nullopt;
  const auto found =
      identification_in(std::span(copy).first(static_cast<std::size_t>(got)), probe.size());
  if (!found) return std::nullopt;
  return static_cast<std::uint16_t>(*found + 1);
}

bool ConnectedSender::learn_identification() {
  const int fd = socket_->socket.get();
  if (!set_timestamps(fd, SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_SOFTWARE)) return false;
  const auto first = next_identification();
  const auto second = first ? next_identification() : first;
  if (!set_timestamps(fd, 0) || !second) return false;
  identification_ = *second;
  return *second == static_cast<std::uint16_t>(*first + 1);  // else it does not count by ones
}

}  // namespace weft::port

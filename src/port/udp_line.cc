#include "port/udp_line.h"

#include <sys/socket.h>

#include <algorithm>
#include <mutex>

#include "wire/udp.h"

namespace weft::port {

std::optional<UdpLine::Turn> UdpLine::wait_for_turn(std::uint64_t key) {
  lock_.lock();
  Turn turn(*this);
  if (served_.load(std::memory_order_relaxed) != key) return std::nullopt;
  candidate_ = 0;
  return turn;
}

std::optional<std::uint16_t> UdpLine::source_port(const network::Flow& flow) {
  if (served_.load(std::memory_order_acquire) != key_of(flow)) return std::nullopt;
  const std::lock_guard guard(lock_);
  if (!socket_) return std::nullopt;
  return socket_->port;
}

void UdpLine::note(const network::Flow& flow, std::uint64_t key) {
  if (!lock_.try_lock()) return;
  const std::lock_guard guard(lock_, std::adopt_lock);
  if (std::exchange(candidate_, key) != key) calls_ = 0;
  if (++calls_ < kCalls << std::min(failures_, kMostDoublings)) return;
  calls_ = 0;
  served_.store(0, std::memory_order_release);  // whoever has it has been silent meanwhile
  if (!flow.destination.is_multicast() && open(flow)) {
    served_.store(key, std::memory_order_release);
  } else {
    ++failures_;
  }
}

bool UdpLine::open(const network::Flow& flow) {
  if (!socket_) {
    auto opened = open_send_socket(address_, interface_, kSendSockets);
    if (!opened) return false;
    socket_ = std::move(*opened);
  }
  const auto to = to_socket_address({flow.destination, wire::kRoceUdpPort}, interface_);
  return connect(socket_->socket.fd(), &to.generic, to.size) == 0;
}

}  // namespace weft::port

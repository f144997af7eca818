#include "port/udp_inlet.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace weft::port {
namespace {

bool comes_from_line(const SocketAddress& from) {
  const auto source = to_endpoint(from);
  return source && is_line_port(source->port);
}

}  // namespace

UdpInlet::UdpInlet(const Gid& address, std::uint32_t interface, Sharing sharing)
    : address_(address), interface_(interface) {
  if (sharing != Sharing::kShared) return;
  if (auto made = make_receive_socket(address)) socket_ = std::move(*made);
}

void UdpInlet::consider(const SocketAddress& from) {
  const bool long_enough = same(from, candidate_);
  candidate_ = from;
  missed_ = 0;
  if (!long_enough || socket_.fd() < 0 || !comes_from_line(from)) return;
  if (!open_for(from)) failures_ = std::min(failures_ + 1, kMostDoublings);
}

bool UdpInlet::open_for(const SocketAddress& from) {
  if (!open_) {
    open_ = bind_receive_socket(socket_, address_, interface_, Sharing::kShared).has_value();
    if (!open_) return false;
    accept_runs(socket_);
  }
  return connect(socket_.fd(), &from.generic, from.size) == 0;
}

}  // namespace weft::port

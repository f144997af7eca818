#include "port/connected_receiver.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace weft::port {
namespace {

bool comes_from_connected_sender(const SocketAddress& from) {
  const auto source = to_endpoint(from);
  return source && is_connected_port(source->port);
}

}  // namespace

ConnectedReceiver::ConnectedReceiver(const Gid& address, std::uint32_t interface, Sharing sharing)
    : address_(address), interface_(interface) {
  if (sharing != Sharing::kShared) return;
  if (auto made = make_receive_socket(address)) socket_ = std::move(*made);
}

void ConnectedReceiver::consider(const SocketAddress& from) {
  const bool long_enough = same(from, candidate_);
  candidate_ = from;
  elsewhere_ = 0;
  if (!long_enough || socket_.get() < 0 || !comes_from_connected_sender(from)) return;
  if (!connect_to(from)) failures_ = std::min(failures_ + 1, kMostDoublings);
}

bool ConnectedReceiver::connect_to(const SocketAddress& from) {
  if (!open_) {
    open_ = bind_receive_socket(socket_, address_, interface_, Sharing::kShared).has_value();
    if (!open_) return false;
    enable_gro(socket_);
  }
  return connect(socket_.get(), &from.generic, from.size) == 0;
}

}  // namespace weft::port

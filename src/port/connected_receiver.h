// A receiving socket of a UDP port that is connected to the peer that sends most, to its
// ConnectedSender. The kernel finds it at once: it neither chooses among the address's sockets nor
// asks whether the way back leads to where a datagram came from, a tenth of what a ping takes. The
// socket is made with the port and never goes before it, so that whoever waits always waits for it
// too.
//
// It has a place of its own among the sockets of the address (address_share.h), whose slot nobody
// gets: what the kernel brings there for others is forwarded like all that went astray. Owned by
// the port's receive side, one thread at a time.
#pragma once

#include <cstdint>

#include "port/udp_socket.h"

namespace weft::port {

class ConnectedReceiver {
 public:
  /// An address that is not shared has no room for another socket: then it never opens.
  ConnectedReceiver(const Gid& address, std::uint32_t interface, Sharing sharing);

  /// -1: there is none. Nothing arrives before it is open.
  int fd() const { return socket_.get(); }
  bool is_open() const { return open_; }
  /// For all that arrives from now on.
  void report_hop_limits() { port::report_hop_limits(socket_, address_.is_ipv4()); }

  /// A datagram of this sender came to the port's own socket. Many in a row, and this socket is
  /// connected to it; but only to a ConnectedSender, which carries a single flow: what others send
  /// may be for other processes, who must not depend on us.
  void on_datagram_elsewhere(const SocketAddress& from) {
    if (++elsewhere_ >= kDatagramsToConnect << failures_ || !same(from, candidate_)) consider(from);
  }
  /// One came here: its peer still needs it.
  void on_datagram() { elsewhere_ = 0; }

 private:
  /// So many datagrams in a row are worth connecting; after each failure, twice as many.
  static constexpr std::uint32_t kDatagramsToConnect = 256;
  static constexpr std::uint32_t kMostDoublings = 12;

  void consider(const SocketAddress& from);
  bool connect_to(const SocketAddress& from);

  const Gid address_;
  const std::uint32_t interface_;
  host::Fd socket_;
  bool open_ = false;  ///< bound: anything may arrive
  SocketAddress candidate_{};
  std::uint32_t elsewhere_ = 0;  ///< datagrams of the candidate
  std::uint32_t failures_ = 0;
};

}  // namespace weft::port

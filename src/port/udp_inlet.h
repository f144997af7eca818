// An inlet: one more receiving socket of a UDP port, connected to the line (udp_line.h) of the peer
// that sends most. What comes from there, the kernel brings here without choosing among the
// address's sockets, and without asking whether the way back leads to where it came from: a tenth
// of what a ping takes. The socket is made with the port and never goes before it, so that whoever
// waits always waits for it too.
//
// It has a place of its own among the sockets of the address (address_share.h), whose slot nobody
// gets: what the kernel brings there for others is handed over like anything else that strayed.
// Owned by the port's receiving side, one thread at a time.
#pragma once

#include <cstdint>

#include "port/udp_socket.h"

namespace weft::port {

class UdpInlet {
 public:
  /// An address that is not shared has no room for another socket: then it never opens.
  UdpInlet(const Gid& address, std::uint32_t interface, Sharing sharing);

  /// -1: there is none. Nothing arrives before it is open.
  int fd() const { return socket_.fd(); }
  bool is_open() const { return open_; }
  /// For all that arrives from now on.
  void report_hop_limits() { port::report_hop_limits(socket_, address_.is_ipv4()); }

  /// A datagram of this sender came to the port's own socket. Many in a row, and the inlet is its;
  /// but only a line's, which carries a single flow: what others send may be for other processes,
  /// who must not depend on us.
  void note_missed(const SocketAddress& from) {
    if (++missed_ >= kDatagrams << failures_ || !same(from, candidate_)) consider(from);
  }
  /// One came here: whoever has the inlet still needs it.
  void note_taken() { missed_ = 0; }

 private:
  /// So many datagrams in a row are worth a call to connect; after each failure, twice as many.
  static constexpr std::uint32_t kDatagrams = 256;
  static constexpr std::uint32_t kMostDoublings = 12;

  void consider(const SocketAddress& from);
  bool open_for(const SocketAddress& from);

  const Gid address_;
  const std::uint32_t interface_;
  Socket socket_;
  bool open_ = false;  ///< bound: anything may arrive
  SocketAddress candidate_{};
  std::uint32_t missed_ = 0;  ///< datagrams of the candidate
  std::uint32_t failures_ = 0;
};

}  // namespace weft::port

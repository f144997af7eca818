// Frames that leave in one system call, because they have one flow and one size, but for the last,
// which may be shorter. The kernel cuts the batch into datagrams (GSO, UDP_SEGMENT). Payload is
// copied into it together with the ICRC: what was checked is what is sent, whatever the program
// does to its memory meanwhile, and one piece costs the kernel less than many. A thread that sends
// has one (base/per_thread.h), whose content ends with the call.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "port/port.h"
#include "port/udp_socket.h"
#include "wire/icrc.h"

namespace weft::port {

class UdpBatch {
 public:
  /// Kernels before 6.9 cut a message into no more than 64.
  static constexpr std::size_t kMostFrames = 64;
  /// What a UDP datagram may hold over IPv4; the whole batch has to fit into one.
  static constexpr std::size_t kMostBytes = 65507;

  /// How many of the first frames go together. At least 1; they are all of one IP family.
  static std::size_t length(std::span<const Outgoing> frames);

  /// Takes the frames; `flow` has the addresses and ports that they will really have,
  /// and the kernel numbers them from `identification` on. Returns how many payloads could be read:
  /// with fewer than there are, send only those, anew.
  std::size_t build(std::span<const Outgoing> frames, const network::Flow& flow,
                    std::uint16_t identification);

  /// One call; 0 or an error number. Null: the socket is connected to the flow's destination.
  int send(int fd, const SocketAddress* to);

 private:
  static constexpr std::size_t kMaxPad = 3;
  static constexpr std::size_t kControlBytes = 3 * CMSG_SPACE(sizeof(int));

  void add(const network::OutFrame& frame, const wire::IcrcPrefix& prefix,
           std::uint16_t identification);
  void put_control(int level, int type, const void* value, std::size_t size);
  void put_header_fields(const network::Flow& flow);

  std::size_t bytes_ = 0;  ///< written; more than kMostBytes: none, the only frame is too long
  std::size_t control_bytes_ = 0;
  alignas(cmsghdr) std::array<std::byte, kControlBytes> control_;
  /// Aligned, because the kernel copies it more quickly then.
  alignas(64) std::array<std::byte, kMostBytes> scratch_;
};

}  // namespace weft::port

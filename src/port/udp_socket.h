// The sockets under a UDP port: one bound to the RoCE port for receiving, and send-only ones bound
// to ports of the range that RoCE senders use. IPv4 sockets never fragment and stay unconnected
// (but for one, see connected_sender.h), so the kernel writes identification 0, which the ICRC
// counts on. A forked child does not keep the descriptors (host/fd.h): its parent's address would
// be taken for as long as the child lives. The functions are stateless, any thread.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstring>
#include <optional>

#include "host/fd.h"
#include "network/flow.h"
#include "weft/result.h"
#include "weft/types.h"

namespace weft::port {

/// Address and UDP port in the kernel's form. Which of the two it is, `size` and the family tell.
struct SocketAddress {
  union {
    sockaddr generic;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };
  socklen_t size;
};

inline bool same(const SocketAddress& a, const SocketAddress& b) {
  if (a.size != b.size) return false;
  if (a.size == sizeof a.v4) return std::memcmp(&a.v4, &b.v4, sizeof a.v4) == 0;
  return std::memcmp(&a.generic, &b.generic, a.size) == 0;
}

struct Endpoint {
  Gid address;
  std::uint16_t port = 0;
};

/// `interface` is used for link-local addresses, which mean nothing without one.
SocketAddress to_socket_address(const Endpoint& endpoint, std::uint32_t interface);
/// Nothing when the family is neither IPv4 nor IPv6, or the size is not the family's.
std::optional<Endpoint> to_endpoint(const SocketAddress& address);

/// kShared: other processes of this user may open it too, see address_share.h.
enum class Sharing : std::uint8_t { kAlone, kShared };
Result<host::Fd> open_receive_socket(const Gid& address, std::uint32_t interface, Sharing sharing);
/// The same in two steps: what was made hears nothing until it is bound.
Result<host::Fd> make_receive_socket(const Gid& address);
Result<void> bind_receive_socket(const host::Fd& socket, const Gid& address,
                                 std::uint32_t interface, Sharing sharing);
/// Hears what is sent to the group over the interface that has the `local` address, as do all
/// others that have opened it.
Result<host::Fd> open_group_socket(const Gid& group, const Gid& local, std::uint32_t interface);
/// From now on the kernel tells the hop limit of each datagram, which costs a little each time.
void report_hop_limits(const host::Fd& socket, bool ipv4);
/// From now on the kernel may join frames of one sender (GRO).
void enable_gro(const host::Fd& socket);

/// What a sending socket gives its datagrams unless told otherwise: connected services slow down
/// when they are marked.
inline constexpr std::uint8_t kDefaultTrafficClass = network::kMarkable, kDefaultHopLimit = 64;
/// 0 means the same, not beyond this link, but the kernel refuses it.
inline constexpr std::uint8_t kLeastHopLimit = 1;

struct SendSocket {
  host::Fd socket;
  std::uint16_t port = 0;  ///< its source port, 0xC000 to 0xFFFF
};
/// The `index`-th of a port's send-only sockets; whatever is sent to it is dropped unread.
inline constexpr std::size_t kSendSockets = 16;
Result<SendSocket> open_send_socket(const Gid& address, std::uint32_t interface, std::size_t index);
/// The `count`-th for connected_sender.h, with a source port that the earlier ones had long ago or
/// never.
Result<SendSocket> open_connected_sender(const Gid& address, std::uint32_t interface,
                                         std::size_t count);
/// What a ConnectedSender sends comes from such a port.
bool is_connected_port(std::uint16_t port);

/// What an error of sendmsg means for the frame.
enum class SendError : std::uint8_t {
  kBusy,     ///< no room now; offer it again
  kFaulted,  ///< its memory could not be read
  kLost,     ///< the network did not take it, or told of an earlier loss: repeating is not our job
};
SendError classify_send_error(int error_number);
/// The kernel, or the device on the way out, cannot cut a message into frames.
bool refuses_gso(int error_number);

}  // namespace weft::port

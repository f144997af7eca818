// How messages of the communication manager travel between processes of one host. A bound port is a
// local socket whose name tells port space, port and address, so the kernel keeps ports apart and
// frees them when a process ends. Who asks for a service connects to that name; the connection, a
// link, carries all messages of both ends, and its end tells each that the other's process is gone.
// Owned by the process's agent, which locks; all calls return at once.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "cm/names.h"
#include "cm/packet.h"
#include "cm/service_id.h"
#include "host/fd.h"
#include "host/local_socket.h"
#include "weft/result.h"
#include "weft/types.h"

namespace weft::cm {

using BindingId = Strong<struct BindingIdTag, std::uint32_t>;  ///< 0: none
using LinkId = Strong<struct LinkIdTag, std::uint32_t>;        ///< 0: none

/// Where a port is bound.
struct Place {
  enum class Kind : std::uint8_t {
    kAddress,   ///< one address
    kAnyIpv4,   ///< every IPv4 address
    kAnyIpv6,   ///< every IPv6 address, and no IPv4 one
    kAnywhere,  ///< both
  };
  PortSpace space;
  Port port;
  Kind kind = Kind::kAddress;
  Gid address = {};  ///< of kAddress
};

class HostExchange {
 public:
  static Result<HostExchange> create();

  /// kBusy: somebody has the port at this place, or at one that overlaps with it. `neighbours` are
  /// the addresses that a bind to all of them must not cut across.
  Result<BindingId> bind(const Place& place, const std::vector<Gid>& neighbours);
  /// Connections with other hosts have numbers of this process's block, so that whoever receives a
  /// message knows whose it is. For as long as the exchange lives.
  Result<CommIdBlock> claim_block(base::Random& random);
  /// Links that came through it stay.
  void unbind(BindingId binding);

  struct Route {
    LinkId link;
    bool fresh;  ///< made now: it leads to whoever has the port now
  };
  /// To whoever has the port at this address. kNotFound: nobody; kBusy: not now. With `fresh`, a
  /// link that exists already is not good enough. Each success is paired with a release().
  Result<Route> reach(PortSpace space, Port port, const Gid& address, bool fresh);
  void release(LinkId link);

  /// In order, later if the peer does not keep up; lost when it is gone, or far too slow.
  void send(LinkId link, const Packet& packet);

  struct Arrival {
    LinkId link;
    /// Nothing: the peer's process is gone, and so is the link. Not told of who only handed over.
    std::optional<Packet> packet;
    std::string came_to;  ///< the name that the peer called; empty: we called it
  };
  /// Readable when collect() has something, and from the time of wake_at() on.
  int fd() const { return epoll_.checked(); }
  /// A bounded number of what arrived: of one peer in order, and the first messages of those who
  /// called in the order of their calls.
  std::vector<Arrival> collect();
  /// The last collect() could not take a peer in, for want of descriptors.
  bool overloaded() const { return overloaded_; }
  /// Makes fd() readable from this time of the steady clock on, whoever collects, until the next
  /// call sets another; kNever: not at all.
  void wake_at(Nanoseconds when) const;

 private:
  struct Listening {
    host::LocalSocket socket;
    std::string name;
  };
  struct Binding {
    std::vector<Listening> sockets;
  };
  struct Link {
    host::LocalSocket socket;
    std::string name;          // of the port that it leads to; empty for the port's side
    std::string came_to = {};  // the port's side: the name that was called
    std::uint32_t users = 0;   // reach() without release()
    bool has_spoken = false;   // something was received
    bool is_peer = false;      // of our connections, beyond what it hands over for other hosts
    std::deque<std::array<std::byte, kPacketBytes>> waiting = {};
  };

  HostExchange(host::Fd epoll, host::Fd timer)
      : epoll_(std::move(epoll)), timer_(std::move(timer)) {}
  Result<host::LocalSocket> listen(const std::string& name, std::uint64_t tag);
  bool watch(int fd, std::uint64_t tag) const;
  void forget(int fd) const;
  Result<LinkId> open(const std::string& name);
  void accept_all(BindingId binding);
  bool is_silent_caller(LinkId link) const;
  void receive_from_callers(std::vector<Arrival>& arrivals);
  void receive_all(LinkId link, std::vector<Arrival>& arrivals);
  void send_waiting(LinkId link);
  void watch_output(const Link& link, LinkId id, bool on) const;
  LinkId add_link(Link link);
  void drop_link(LinkId link);

  host::Fd epoll_, timer_;
  std::map<BindingId, Binding> bindings_;
  std::map<LinkId, Link> links_;
  std::deque<LinkId> silent_callers_;  // accepted, nothing received yet; the first caller first
  std::map<std::string, LinkId> by_name_;
  std::uint32_t last_id_ = 0;
  bool overloaded_ = false;
};

}  // namespace weft::cm

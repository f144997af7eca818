// How messages of the communication manager travel between processes of one host. A bound port is a
// local socket whose name tells port space, port and address, so the kernel keeps ports apart and
// frees them when a process ends. Who asks for a service connects to that name; the connection, a
// link, carries all messages of both ends, and its end tells each that the other's process is gone.
// Owned by the process's driver, which locks; all calls return at once.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "cm/links.h"
#include "host/fd.h"
#include "host/local_socket.h"
#include "weft/result.h"
#include "weft/types.h"

namespace weft::cm {

class HostExchange final : public Links {
 public:
  static Result<HostExchange> create();

  // Links
  Result<BindingId> bind(const Place& place, const std::vector<Gid>& neighbours) override;
  void unbind(BindingId binding) override;
  Result<Route> reach(PortSpace space, Port port, const Gid& address, bool fresh) override;
  Result<CommIdBlock> claim_block(base::Random& random) override;

  /// Pairs with reach().
  void release(LinkId link);

  /// In order, later if the peer does not keep up; lost when it is gone, or far too slow.
  void send(LinkId link, const Packet& packet);

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
    std::string name;              // of the port that it leads to; empty for the port's side
    std::string called_name = {};  // the port's side: the name that was called
    std::uint32_t users = 0;       // reach() without release()
    bool has_spoken = false;       // something was received
    bool is_peer = false;          // it has sent what it did not only forward
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

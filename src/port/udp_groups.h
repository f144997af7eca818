// The multicast groups of a UDP port. The port's own socket hears only what is sent to its address,
// so each group has a socket, bound to the group's address, that has joined it at the port's
// interface; members in other processes have sockets of their own, and each gets every datagram.
// What arrives is as hostile as anywhere. Owned by the port. join() and leave() may be called by
// any thread, take() by the one that receives.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "port/udp_inbox.h"
#include "port/udp_socket.h"
#include "weft/result.h"
#include "weft/types.h"

namespace weft::port {

class UdpGroups {
 public:
  static constexpr std::size_t kMostGroups = 64;

  UdpGroups(const Gid& local, std::uint32_t interface) : local_(local), interface_(interface) {}

  /// Counted: as many calls of leave() end it. `epoll` becomes readable when something comes.
  Result<void> join(const Gid& group, int epoll);
  void leave(const Gid& group);

  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }
  /// Looks at up to `max` frames, of the groups in turn; the receiver must not call back. Tells how
  /// many there were.
  std::size_t receive(Receiver& receiver, std::size_t max);

 private:
  struct Group {
    Gid address;
    host::Fd socket;
    std::unique_ptr<UdpInbox> inbox;
    std::size_t members = 0;
  };

  const Gid local_;
  const std::uint32_t interface_;
  std::mutex lock_;
  std::vector<Group> groups_;
  std::size_t next_ = 0;
  std::atomic<std::size_t> count_{0};
};

}  // namespace weft::port

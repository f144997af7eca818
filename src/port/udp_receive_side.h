// The receive side of a UDP port: asks its sockets, the one that has had something more often,
// checks what comes, hands it up, and forwards what is for another process of the address. The
// port's own socket is bound to the address; besides there may be a connected one, one for each
// multicast group, and what other processes forward. Owned by the port. receive() by one thread at
// a time; join(), leave() and the rest by any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "host/fd.h"
#include "port/address_share.h"
#include "port/arrival_pattern.h"
#include "port/connected_receiver.h"
#include "port/port.h"
#include "port/udp_groups.h"
#include "port/udp_inbox.h"
#include "port/udp_socket.h"
#include "weft/result.h"
#include "weft/types.h"

namespace weft::port {

class UdpReceiveSide {
 public:
  /// `share` is null when the address is ours alone.
  UdpReceiveSide(const Gid& address, std::uint32_t interface, host::Fd socket,
                 std::unique_ptr<AddressShare> share);

  /// Looks at up to `max` frames, those that it drops included, so a flood of bad ones does not
  /// keep it.
  std::size_t receive(Receiver& receiver, std::size_t max);
  /// Frames that came together may be handed up in several calls of receive().
  bool has_left_over() const { return left_over_.load(std::memory_order_acquire); }
  void add_wait_fds(std::vector<int>& fds) const;
  std::optional<unsigned> number_slot() const;

  Result<void> join(const Gid& group);
  void leave(const Gid& group) { groups_.leave(group); }
  void report_all_headers();

 private:
  bool fill();
  bool fill_from_own();
  bool fill_from_connected();
  bool fill_from(int fd);
  void deliver(Receiver& receiver, std::size_t* handed_up);
  bool forward(Qpn number, const Incoming& incoming);
  bool looks_for_forwarded(bool idle);
  std::size_t take_forwarded(Receiver& receiver, std::size_t max);

  const Gid address_;
  const host::Fd socket_;
  const std::unique_ptr<AddressShare> share_;
  host::Fd others_;  ///< what is forwarded, and the groups; only of a shared address
  UdpInbox inbox_;
  UdpGroups groups_;
  ConnectedReceiver connected_;
  ArrivalPattern arrivals_;
  std::atomic<bool> all_headers_{false};
  std::atomic<bool> left_over_{false};
  // Of the own socket and the connected one, the leader had something last.
  bool connected_leads_ = false;
  unsigned looks_at_leader_ = 0;
  unsigned looks_per_other_ = 1;  ///< so many at the leader for each at the other
  unsigned polls_ = 0, group_polls_ = 0;
  unsigned empty_looks_ = 0;  ///< for what others forward
};

}  // namespace weft::port

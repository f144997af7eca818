// The port over plain UDP: RoCE v2 frames between sockets, of any machine or of this one. It
// receives at port 4791 of its address, alone or together with other processes of the user, and
// sends from a few other ports, one of which each flow always gets. Frames of one size to one peer
// leave in one system call and arrive in one, where the kernel and the way allow it (GSO, GRO).
// Payload is copied once, into the datagram, together with its ICRC. Threads as port.h says; owned
// by the controller, which closes it by destroying it.
//
// An address vector's traffic class and hop limit are honoured; its flow label is the kernel's
// choice.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "port/port.h"
#include "port/port_control.h"
#include "port/udp_datagram.h"
#include "port/udp_line.h"
#include "port/udp_socket.h"
#include "weft/result.h"
#include "weft/types.h"

namespace weft::port {

class AddressShare;
class UdpGroups;
class UdpInlet;
class UdpInbox;
class UdpRun;

class UdpPort final : public Port, public PortControl {
 public:
  /// Takes UDP port 4791 of one of this machine's unicast addresses, for itself or together with
  /// other processes of this user; then `slot`, if given, is the one that it insists on.
  static Result<std::unique_ptr<UdpPort>> open(const Gid& address,
                                               Sharing sharing = Sharing::kAlone,
                                               std::optional<unsigned> slot = {});
  ~UdpPort() override;

  Gid address() const override { return address_; }
  Mtu max_mtu() const override { return max_mtu_; }
  /// Frames that the network refuses are lost, not failed; so are those to the other IP family.
  SendOutcome send(std::span<const Outgoing> frames) override;
  /// Looks at up to `max` frames, those that it drops included, so a flood of bad ones does not
  /// keep it.
  std::size_t receive(Receiver& receiver, std::size_t max) override;
  /// Frames that came together may be handed up in several calls.
  Nanoseconds next_deadline() const override {
    return left_over_.load(std::memory_order_acquire) ? 0 : kNever;
  }
  void add_wait_fds(std::vector<int>& fds) const override;
  PortControl* control() override { return this; }
  /// The slot whose numbers reach this port (host/number_blocks.h); nothing: all do.
  std::optional<unsigned> number_slot() const;

  Result<void> join(const Gid& group) override;
  void leave(const Gid& group) override;
  void report_all_headers() override;
  LinkState link_state() const override;
  network::Flow flow_on_wire(const network::Flow& flow) override;

 private:
  /// Opened when a flow first needs it; empty if that failed, for ever, so that a flow stays put.
  struct SendSlot {
    std::once_flag once;
    std::optional<SendSocket> opened;
  };

  UdpPort(const Gid& address, std::uint32_t interface, Mtu max_mtu, Socket receive_socket,
          SendSocket send_socket, std::unique_ptr<AddressShare> share);
  bool fill_inbox();
  bool fill_from_inlet();
  bool fill_from_own();
  bool fill_by(int fd);
  unsigned polls_per_look(bool idle) const;
  void hand_up(Receiver& receiver, std::size_t* handed_up);
  static void tell_dropped(Receiver& receiver, Drop drop);
  bool hand_over(Qpn number, const Incoming& incoming);
  std::size_t take_from_groups(Receiver& receiver, std::size_t max);
  std::size_t take_parcels(Receiver& receiver, std::size_t max);

  const SendSocket& send_socket(const network::Flow& flow);
  SendOutcome send_run(std::span<const Outgoing> frames);
  SendOutcome send_together(std::span<const Outgoing> frames);
  bool send_over_line(UdpLine::Turn& turn, UdpRun& run, std::span<const Outgoing> frames);

  const Gid address_;
  const std::uint32_t interface_;
  const Mtu max_mtu_;
  const Socket receive_socket_;
  const SendSocket first_send_socket_;
  std::array<SendSlot, kSendSockets - 1> more_send_sockets_;
  /// The way out takes several frames in one call.
  std::atomic<bool> segments_{true};

  // The receiving side's.
  /// As many as a reply and its acknowledgement.
  static constexpr std::size_t kFewFrames = 2;
  const std::unique_ptr<UdpInbox> inbox_;
  const std::unique_ptr<AddressShare> share_;  ///< null: the address is ours alone
  const std::unique_ptr<UdpGroups> groups_;
  const std::unique_ptr<UdpLine> line_;
  const std::unique_ptr<UdpInlet> inlet_;
  bool inlet_leads_ = false;      ///< it had something last, of it and our own socket
  unsigned looks_per_other_ = 1;  ///< so many looks at the one for each at the other
  unsigned looks_at_one_ = 0;
  host::Fd others_;  ///< of all sockets but the port's own, when it is shared
  unsigned polls_ = 0, group_polls_ = 0;
  bool busy_ = false;         ///< one datagram is likely to be followed by another
  bool waited_ = false;       ///< a look was in vain since the last datagram
  unsigned lone_frames_ = 0;  ///< so many came one by one
  unsigned looks_ = 0;
  unsigned looks_in_vain_ = 0;  ///< for what others hand over
  std::atomic<bool> all_headers_{false};
  std::atomic<bool> left_over_{false};
};

}  // namespace weft::port

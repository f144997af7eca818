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

#include "port/connected_sender.h"
#include "port/port.h"
#include "port/port_control.h"
#include "port/udp_receive_side.h"
#include "port/udp_socket.h"
#include "weft/result.h"
#include "weft/types.h"

namespace weft::port {

class UdpBatch;

class UdpPort final : public Port, public PortControl {
 public:
  /// Takes UDP port 4791 of one of this machine's unicast addresses, for itself or together with
  /// other processes of this user; then `slot`, if given, is the one that it insists on.
  static Result<std::unique_ptr<UdpPort>> open(const Gid& address,
                                               Sharing sharing = Sharing::kAlone,
                                               std::optional<unsigned> slot = {});

  Gid address() const override { return address_; }
  Mtu max_mtu() const override { return max_mtu_; }
  /// Frames that the network refuses are lost, not failed; so are those to the other IP family.
  SendOutcome send(std::span<const Outgoing> frames) override;
  std::size_t receive(Receiver& receiver, std::size_t max) override {
    return receive_side_.receive(receiver, max);
  }
  Nanoseconds next_deadline() const override { return receive_side_.has_left_over() ? 0 : kNever; }
  void add_wait_fds(std::vector<int>& fds) const override { receive_side_.add_wait_fds(fds); }
  PortControl* control() override { return this; }
  /// The slot whose numbers reach this port (host/number_blocks.h); nothing: all do.
  std::optional<unsigned> number_slot() const { return receive_side_.number_slot(); }

  Result<void> join(const Gid& group) override { return receive_side_.join(group); }
  void leave(const Gid& group) override { receive_side_.leave(group); }
  void report_all_headers() override { receive_side_.report_all_headers(); }
  LinkState link_state() const override;
  network::Flow flow_on_wire(const network::Flow& flow) override;

 private:
  /// Opened when a flow first needs it; empty if that failed, for ever, so that a flow stays put.
  struct SendSlot {
    std::once_flag once;
    std::optional<SendSocket> opened;
  };

  UdpPort(const Gid& address, std::uint32_t interface, Mtu max_mtu, host::Fd receive_socket,
          SendSocket send_socket, std::unique_ptr<AddressShare> share);
  const SendSocket& send_socket(const network::Flow& flow);
  SendOutcome send_batch(std::span<const Outgoing> frames);
  bool send_connected(ConnectedSender::Turn& turn, UdpBatch& batch,
                      std::span<const Outgoing> frames);

  const Gid address_;
  const std::uint32_t interface_;
  const Mtu max_mtu_;
  const SendSocket first_send_socket_;
  std::array<SendSlot, kSendSockets - 1> more_send_sockets_;
  ConnectedSender connected_sender_;
  std::atomic<bool> gso_{true};  ///< the way out takes several frames in one call
  UdpReceiveSide receive_side_;
};

}  // namespace weft::port

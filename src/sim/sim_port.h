// A controller's port on the simulated network. It turns frames into the bytes of RoCEv2 packets,
// from IP header to ICRC, and back; what arrives corrupted is found out as on a real wire, by its
// lengths and its ICRC. Owned by its controller, lives shorter than the network; one thread.
#pragma once

#include <functional>

#include "port/port.h"
#include "sim/network.h"

namespace weft::sim {

class SimPort final : public port::Port, public Inbox {
 public:
  /// `wake` is called when frames have come: somebody should make the controller progress.
  SimPort(Stage& stage, Network& network, std::uint32_t endpoint, const Gid& address, Mtu max_mtu,
          std::function<void()> wake);
  ~SimPort() override;

  Gid address() const override { return address_; }
  Mtu max_mtu() const override { return max_mtu_; }
  port::SendOutcome send(std::span<const port::Outgoing> frames) override;
  std::size_t receive(port::Receiver& receiver, std::size_t max) override;

  void on_arrival(SimFrame* frame) override { inbox_.push(frame); }
  void on_arrivals_end() override { wake_(); }
  std::size_t waiting() const override { return inbox_.size(); }

 private:
  void hand_up(const SimFrame& frame, port::Receiver& receiver);

  Stage& stage_;
  Network& network_;
  const std::uint32_t endpoint_;
  const Gid address_;
  const Mtu max_mtu_;
  std::function<void()> wake_;
  FrameList inbox_;
};

}  // namespace weft::sim

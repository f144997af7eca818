// A raw port on a network interface, by packet sockets: frames leave and arrive as they are; whole
// IP packets leave by the kernel's routes. The kernel's stack goes on to see what arrives, unless
// that is to be dropped. Needs CAP_NET_RAW. Threads as raw_port.h says.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "base/lock.h"
#include "host/fd.h"
#include "port/packet_ring.h"
#include "port/packet_socket.h"
#include "port/raw_port.h"
#include "weft/result.h"

namespace weft::port {

class PacketPort final : public RawPort {
 public:
  /// On the interface that has this address.
  static Result<std::unique_ptr<RawPort>> open(const Gid& address,
                                               RawUnclaimed unclaimed = RawUnclaimed::kKernel);

  LinkAddress link_address() const override { return interface_.link_address; }
  std::uint32_t max_packet() const override { return interface_.max_packet; }
  bool returns_own() const override { return interface_.loopback; }
  SendOutcome send(std::span<const RawBytes> frames) override;
  SendOutcome send_packets(std::span<const RawBytes> packets) override;
  std::size_t receive(RawReceiver& receiver, std::size_t max) override;
  void add_wait_fds(std::vector<int>& fds) const override;
  void set_claims(const network::RawClaims& claims) override;
  Result<host::Fd> reserve(const RawKey& key) override;

 private:
  struct Sockets {
    host::Fd receiver, sender, ipv6_sender, ipv4_sender;
    host::Fd train_sender;  ///< empty: there are no trains
    host::Fd gate;          ///< empty: the kernel's stack sees what arrives
  };
  PacketPort(RawInterface interface, PacketRing ring, Sockets sockets);
  SendOutcome send_each(std::span<const RawBytes> frames);
  /// Nothing: the kernel does not take such, now or ever.
  std::optional<SendStatus> send_train(std::span<const RawBytes> frames);

  const RawInterface interface_;
  const Sockets sockets_;
  PacketRing ring_;
  std::atomic<bool> trains_;  ///< the kernel takes them
  base::Lock claims_lock_;
  bool listens_ = false, promiscuous_ = false;  ///< under claims_lock_
};

}  // namespace weft::port

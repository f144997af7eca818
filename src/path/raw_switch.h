// Where the packets of a raw port go, and where they come from: finds the queue pairs that claimed
// what arrives, and refuses what is malformed or pretends to come from here. What one queue pair
// sends to an address that another of the same port has claimed stays here, unless the port brings
// it back by itself. Owned by the controller's raw service; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/lock.h"
#include "network/raw_claims.h"
#include "obs/counters.h"
#include "path/directory.h"
#include "path/source.h"
#include "port/raw_port.h"

namespace weft::path {

struct RawSwitchSetup {
  std::unique_ptr<port::RawPort> port;
  Gid address{};  ///< the controller's, at this port
  QueuePairTable* table = nullptr;
  obs::Counters* counters = nullptr;
};

class RawSwitch final : public Source, private port::RawReceiver {
 public:
  explicit RawSwitch(RawSwitchSetup setup);

  Result<network::RawClaims::Id> add(const network::RawClaim& claim);
  bool remove(network::RawClaims::Id id);
  /// Other processes of this machine find the key taken while the descriptor lives; kBusy: they
  /// have it.
  Result<host::Fd> reserve(const RawKey& key) { return port_->reserve(key); }
  void remove_all_of(Qpn qpn);

  std::uint32_t max_message(RawFraming framing) const;
  /// Of the queue pair, whose send_lock is not held. What may not leave is passed over, and
  /// counted.
  port::SendOutcome send(const queue::QueuePair& qp, std::span<const port::RawBytes> messages);

  // Source
  bool poll(bool& missed) override;
  void add_wait_fds(std::vector<int>& fds) const override { port_->add_wait_fds(fds); }

 private:
  using Claims = network::RawClaims;

  void on_raw_frame(port::RawBytes frame, bool needs_checksum) override;
  void on_cut_frame() override;
  void publish(Claims claims);
  std::shared_ptr<const Claims> claims() const;
  bool may_leave(const Claims& claims, const queue::QueuePair& qp, const wire::RawPacket& packet);
  bool is_spoofed(const wire::RawPacket& packet) const;
  /// To the queue pairs that claimed it; false: nobody did.
  bool give(const Claims& claims, const wire::RawPacket& packet, port::RawBytes frame);
  bool is_here(const Claims& claims, const wire::RawPacket& packet, RawFraming framing) const;
  bool give_locally(const Claims& claims, const wire::RawPacket& packet, port::RawBytes message,
                    RawFraming framing);
  void deliver(Qpn qpn, const wire::RawPacket& packet, port::RawBytes frame);
  void count_fault(const wire::RawPacket& packet);

  const std::unique_ptr<port::RawPort> port_;
  const Gid address_;
  QueuePairTable& table_;
  obs::Counters& counters_;
  mutable base::Lock claims_lock_;
  std::shared_ptr<const Claims> claims_;
  base::Lock receive_lock_;
  // Under receive_lock_:
  std::shared_ptr<const Claims> receiving_by_;
  std::vector<std::byte> mended_;  ///< a frame whose checksum was not there
};

}  // namespace weft::path

// Raw ports of one process that are joined without any network: what is sent at one reaches all of
// them, the sender too. For ports whose address is this process's alone. The hub is made before its
// ports and gone after them; any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/lock.h"
#include "host/fd.h"
#include "port/raw_port.h"
#include "weft/result.h"

namespace weft::port {

class RawHub;

class RawHubPort final : public RawPort {
 public:
  static Result<std::unique_ptr<RawPort>> open(RawHub& hub, LinkAddress address);
  ~RawHubPort() override;

  LinkAddress link_address() const override { return address_; }
  std::uint32_t max_packet() const override { return kMaxPacket; }
  bool returns_own() const override { return true; }
  SendOutcome send(std::span<const RawBytes> frames) override;
  SendOutcome send_packets(std::span<const RawBytes> packets) override;
  std::size_t receive(RawReceiver& receiver, std::size_t max) override;
  void add_wait_fds(std::vector<int>& fds) const override { fds.push_back(signal_.get()); }
  void set_claims(const network::RawClaims& claims) override {
    listens_.store(!claims.empty(), std::memory_order_release);
  }

 private:
  friend class RawHub;
  static constexpr std::uint32_t kMaxPacket = 4096;
  /// Frames that wait for receive(); what comes when there are so many is lost.
  static constexpr std::size_t kMostWaiting = 4096;
  using Frame = std::shared_ptr<const std::vector<std::byte>>;

  RawHubPort(RawHub& hub, LinkAddress address, host::Fd signal)
      : hub_(hub), address_(address), signal_(std::move(signal)) {}
  void take(const Frame& frame);

  RawHub& hub_;
  const LinkAddress address_;
  std::atomic<bool> listens_{false};
  std::atomic<std::size_t> waiting_{0};
  const host::Fd signal_;  ///< an eventfd, readable while frames wait
  base::Lock lock_;
  std::deque<Frame> inbox_;
};

class RawHub {
 private:
  friend class RawHubPort;
  void spread(const RawHubPort::Frame& frame);
  base::Lock lock_;
  std::vector<RawHubPort*> ports_;
};

}  // namespace weft::port

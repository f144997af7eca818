// What a controller has for raw datagrams: a switch for each of its ports, opened with the first
// raw queue pair, and the claims of its queue pairs. Owned by the controller; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "host/fd.h"
#include "network/raw_claims.h"
#include "path/engine.h"
#include "path/raw_switch.h"
#include "port/raw_port.h"
#include "queue/path.h"
#include "weft/raw.h"
#include "weft/result.h"

namespace weft::verbs {

/// Opens what is behind a port for raw packets; empty: there is nothing.
using OpenRawPort = std::function<Result<std::unique_ptr<port::RawPort>>()>;

class RawService {
 public:
  RawService(path::Engine& engine, path::QueuePairTable& table, obs::Counters& counters)
      : engine_(engine), table_(table), counters_(counters) {}

  /// Before the first queue pair, in the order of the ports.
  void add_port(const Gid& address, OpenRawPort open);

  /// kNotPermitted names the capability that is missing.
  Result<void> open();

  /// The packets that the key names come to the queue pair, and to no other one of this machine.
  Result<void> claim(const queue::QueuePair& qp, const RawKey& key);
  Result<void> release(const queue::QueuePair& qp, const RawKey& key);

  /// A rule of the queue pair's at a port; several queue pairs may have the same.
  struct FlowId {
    std::uint8_t port = 1;
    network::RawClaims::Id id = 0;
  };
  Result<FlowId> add_flow(std::uint8_t port, const network::RawClaim& claim);
  void remove_flow(FlowId flow);

  /// The queue pair is going away, and its claims with it.
  void forget(const queue::QueuePair& qp);
  /// Null: no memory.
  std::unique_ptr<queue::Path> make_path(const queue::QueuePair& qp);

 private:
  struct RawPortSlot {
    Gid address;
    OpenRawPort open;
    std::unique_ptr<path::RawSwitch> through;
  };
  struct Claimed {
    Qpn qpn{};
    std::uint8_t port = 1;
    RawKey key;
    network::RawClaims::Id id = 0;
    host::Fd reserved;  ///< other processes find the key taken
  };

  Result<path::RawSwitch*> at(std::uint8_t port);

  path::Engine& engine_;
  path::QueuePairTable& table_;
  obs::Counters& counters_;
  std::mutex mutex_;
  bool opened_ = false;
  std::vector<RawPortSlot> ports_;
  std::vector<Claimed> claimed_;
};

}  // namespace weft::verbs

// The general services interface of a controller: queue pair 1 of each of its ports. It sends and
// receives management datagrams; what arrives goes to the agent of its class (agents.h). Nobody
// posts to it and it has no completion queue. Part of the controller; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "host/fork.h"
#include "mad/agents.h"
#include "mad/header.h"
#include "network/flow.h"
#include "obs/counters.h"
#include "port/port.h"
#include "weft/types.h"
#include "wire/packet.h"

namespace weft::mad {

class Gsi {
 public:
  /// `agents`: null: nobody handles management datagrams here.
  Gsi(Agents* agents, obs::Counters& counters) : agents_(agents), counters_(counters) {}

  /// Before the first datagram. The port outlives this.
  void add_port(const Gid& address, port::Port& wire) { ports_.push_back({address, &wire}); }

  /// From one of the ports to queue pair 1 of another device. False: that address is not on the
  /// network, or it has no room now; what is sent may be lost like any datagram.
  bool send(const Gid& source, const Gid& destination, std::span<const std::byte, kBytes> bytes);
  /// A frame for queue pair 1. False: there are no agents; then nothing happened. What is no
  /// management datagram is counted and dropped.
  bool receive(const wire::Packet& packet, const network::Flow& flow, Nanoseconds now);

  obs::Counters& counters() { return counters_; }

 private:
  struct Outlet {
    Gid address;
    port::Port* wire;
  };

  const unsigned generation_ = host::fork_generation();  ///< a child's copy sends nothing
  Agents* const agents_;
  obs::Counters& counters_;
  std::vector<Outlet> ports_;
  std::atomic<std::uint32_t> psn_{0};
};

}  // namespace weft::mad

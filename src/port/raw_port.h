// A port for packets of any protocol, beside the one for RDMA frames: whole Ethernet frames in and
// out, and IP packets out, which it routes. Implementations are a packet socket on an interface and
// a hub inside the process.
//
// send() and send_packets() may be called by any thread, receive() by one at a time. Owned by the
// controller's raw service, and outlives the queue pairs that use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "host/fd.h"
#include "network/raw_claims.h"
#include "port/port.h"
#include "weft/raw.h"
#include "weft/types.h"

namespace weft::port {

/// A whole frame, or a whole packet.
using RawBytes = std::span<const std::byte>;

class RawReceiver {
 public:
  /// The bytes live until it returns. `needs_checksum`: the sender left TCP's or UDP's checksum to
  /// a network card that was not there.
  virtual void on_raw_frame(RawBytes frame, bool needs_checksum) = 0;
  /// A frame that was too long to be taken whole.
  virtual void on_cut_frame() = 0;

 protected:
  ~RawReceiver() = default;
};

class RawPort {
 public:
  virtual ~RawPort() = default;

  /// Of the interface.
  virtual LinkAddress link_address() const = 0;
  /// The longest packet that it carries; a frame may have 18 bytes more.
  virtual std::uint32_t max_packet() const = 0;
  /// What is sent here comes back by receive(), as on a loopback interface.
  virtual bool returns_own() const = 0;

  /// Frames and packets that the network refuses are lost, not failed. kBusy: the first `taken`;
  /// the rest has to be offered again.
  virtual SendOutcome send(std::span<const RawBytes> frames) = 0;
  /// IP packets: the port finds out whom to give them to.
  virtual SendOutcome send_packets(std::span<const RawBytes> packets) = 0;

  /// Hands up to `max` frames to the receiver and tells how many; never blocks.
  virtual std::size_t receive(RawReceiver& receiver, std::size_t max) = 0;
  virtual void add_wait_fds(std::vector<int>& fds) const = 0;

  /// From now on receive() may leave out what none of these claims is for.
  virtual void set_claims(const network::RawClaims& claims) = 0;

  /// Other processes that use the same interface find the key taken while the descriptor lives. An
  /// empty one: there are none. kBusy: one of them has it.
  virtual Result<host::Fd> reserve(const RawKey& /*key*/) { return host::Fd(); }
};

}  // namespace weft::port

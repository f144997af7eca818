// A port: where frames leave and enter a controller. Implementations are a UDP socket and the
// simulation's network; wrappers (faults, capture) are ports that hold a port. A port turns frames
// into packets and hands up packets whose ICRC it has checked.
//
// send() may be called by any thread, receive() by one thread at a time (the progress engine sees
// to it). A port outlives the queue pairs that use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "network/flow.h"
#include "network/frame.h"
#include "weft/types.h"

namespace weft::port {

/// A frame and its way.
struct Outgoing {
  const network::OutFrame* frame;
  network::Flow flow;
};

enum class SendStatus : std::uint8_t {
  kTaken,    ///< all of them; a port may lose frames later, that is the services' business
  kBusy,     ///< the first `taken`; the rest has to be offered again
  kFaulted,  ///< the first `taken`; the payload of the next one could not be read
};
struct SendOutcome {
  SendStatus status = SendStatus::kTaken;
  std::size_t taken = 0;
};

/// A frame that arrived, its ICRC confirmed. The bytes live until on_frame() returns.
struct Incoming {
  network::Flow flow;                 ///< destination is our address, or a group that was joined
  std::span<const std::byte> packet;  ///< BTH to pad
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  virtual void on_frame(const Incoming& frame) = 0;
  /// What the port itself had to drop.
  virtual void on_bad_checksum() = 0;
  virtual void on_malformed() = 0;
};

class PortControl;

class Port {
 public:
  virtual ~Port() = default;

  virtual Gid address() const = 0;
  virtual Mtu max_mtu() const = 0;
  virtual SendOutcome send(std::span<const Outgoing> frames) = 0;
  /// Hands up to `max` frames to the receiver and tells how many; never blocks.
  virtual std::size_t receive(Receiver& receiver, std::size_t max) = 0;
  /// When receive() has something to hand up although nothing arrives; kNever: it has not. Changes
  /// only in receive(); any thread may ask.
  virtual Nanoseconds next_deadline() const { return kNever; }
  /// Adds descriptors one of which is readable when receive() would find something. Several, since
  /// whatever watches a socket for long slows down each frame that arrives there.
  virtual void add_wait_fds(std::vector<int>& /*fds*/) const {}
  /// What can be asked of a port besides; nullptr: nothing.
  virtual PortControl* control() { return nullptr; }
};

}  // namespace weft::port

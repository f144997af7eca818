// A port: where frames leave and enter a controller. Implementations are a UDP socket, the
// simulation's network, and later the emulated fabric; wrappers (faults, tracer, capture) are ports
// that hold a port. A port checks the ICRC of what it hands up; it knows nothing of queue pairs.
//
// send() may be called by any thread, receive() by one thread at a time (the progress engine sees
// to it). A port outlives the queue pairs that use it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "network/flow.h"
#include "network/frame.h"
#include "weft/result.h"
#include "weft/types.h"

namespace weft::port {

/// Queue-pair numbers are dealt out in blocks of 4096; where processes share an address, those of
/// the blocks n, n + kNumberSlots, ... reach the one that has slot n.
inline constexpr unsigned kNumberSlots = 64, kNumberBlockBits = 12;
inline unsigned slot_of(Qpn number) { return (number.value >> kNumberBlockBits) % kNumberSlots; }

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

/// Whether what is sent gets as far as the wire.
enum class Outlet : std::uint8_t {
  kOpen,         ///< as far as is known
  kAddressGone,  ///< the machine no longer has the port's address
  kLinkDown,     ///< the interface that has it is down
};

class Port {
 public:
  virtual ~Port() = default;

  virtual Gid address() const = 0;
  virtual Mtu max_mtu() const = 0;
  virtual SendOutcome send(std::span<const Outgoing> frames) = 0;
  /// Hands up to `max` frames to the receiver and tells how many; never blocks.
  virtual std::size_t receive(Receiver& receiver, std::size_t max) = 0;
  /// Readable when receive() would find something; -1 when there is nothing to wait on.
  virtual int wait_fd() const { return -1; }
  /// The same for what comes by other ways, -1 where there are none. Several, since whatever
  /// watches a socket for long slows down each frame that arrives there.
  virtual std::array<int, 2> other_wait_fds() const { return {-1, -1}; }
  /// When receive() has something to hand up although nothing arrives; kNever: it has not. Changes
  /// only in receive(); any thread may ask.
  virtual Nanoseconds next_deadline() const { return kNever; }
  /// The slot whose numbers reach this port; nothing: all do.
  virtual std::optional<unsigned> number_slot() const { return std::nullopt; }
  /// From now on receive() hands up what is sent to a multicast group; leave() as often as join().
  virtual Result<void> join(const Gid& /*group*/) {
    return fail(Errc::kNotSupported, "group: this port has no multicast");
  }
  virtual void leave(const Gid& /*group*/) {}
  /// From now on traffic class and hop limit of each frame matter: somebody takes datagrams, which
  /// bring their headers with them. Before, a port may tell those of a few frames only, and for the
  /// others say that they came unmarked. Any thread.
  virtual void tell_all_qualities() {}
  /// Asks the machine: never on the data path.
  virtual Outlet look_at_outlet() const { return Outlet::kOpen; }
  /// The flow as the frame's headers will tell it: a port may have its own source ports.
  virtual network::Flow flow_on_wire(const network::Flow& flow) { return flow; }
};

}  // namespace weft::port

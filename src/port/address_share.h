// How several processes have one address and its UDP port. Each has a receiving socket of its own
// (SO_REUSEPORT) and a slot: queue-pair numbers are dealt out in blocks, and those of a slot's
// blocks belong to whoever has it. A program in the kernel (classic BPF) hands a datagram for slot
// n to the n-th socket, so that processes do not disturb each other, not even when one is stopped;
// it is there from when a second process joins, unless WEFT_ADDRESS_FILTER=off.
// After a process has died, the last socket takes its place and the kernel's order no longer is
// that of the slots: what then comes to the wrong process is forwarded, through a local socket
// that bears the slot's name. Nothing is sent before it is known that a process of this user has
// it.
//
//   datagram -> kernel: (number >> 12) mod 64 -> socket of that place -> right process, mostly
//                                                        |
//                                                        +-> "weft-port/<address>/<slot>" -> it
//
// Owned by a UDP port. join() from any thread; the rest by the port's receiving side.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "host/fd.h"
#include "host/local_socket.h"
#include "host/number_blocks.h"
#include "port/port.h"
#include "port/udp_socket.h"
#include "weft/result.h"
#include "weft/types.h"

namespace weft::port {

class AddressShare {
 public:
  /// Opens the receiving socket and finds a slot: the given one, or the best that is free. Fails
  /// when another user, or a program that shares with nobody, has the address.
  struct Joined {
    host::Fd receive_socket;
    std::unique_ptr<AddressShare> share;
  };
  static Result<Joined> join(const Gid& address, std::uint32_t interface,
                             std::optional<unsigned> slot);

  unsigned slot() const { return slot_; }
  /// The number is in a block of our slot, or in the first one, which everybody has.
  bool is_ours(Qpn number) const {
    return host::slot_of(number) == slot_ || number.value >> host::kBlockBits == 0;
  }

  /// Frames that other processes forward arrive here.
  int fd() const { return epoll_.get(); }

  /// To whoever has the number; false: nobody has, or it is not taken.
  bool forward(Qpn number, const Incoming& frame, Nanoseconds now);
  /// The next that a process of the same user forwarded; nothing: there is none. It lives
  /// until the next call.
  std::optional<Incoming> take();

  /// A datagram of a process that looks for its place; it means nothing.
  static constexpr std::size_t kProbeBytes = 15;
  using Probe = std::array<std::byte, kProbeBytes>;
  static bool is_probe(std::span<const std::byte> datagram);
  /// One that nobody waits for.
  static Probe blank_probe();

 private:
  AddressShare(const Gid& address, unsigned slot, host::LocalSocket listener, host::Fd epoll);
  static Result<std::unique_ptr<AddressShare>> open(const Gid& address, unsigned slot);
  bool connect_to(unsigned slot);
  void accept_connections();
  bool find_readable();

  const Gid address_;
  const unsigned slot_;
  const host::LocalSocket listener_;
  const host::Fd epoll_;  ///< the listener and the incoming connections
  static constexpr std::uint32_t kListener = ~std::uint32_t{0};
  std::array<host::LocalSocket, host::kNumberSlots> outgoing_;  ///< by slot, as they were needed
  std::array<host::LocalSocket, 2 * host::kNumberSlots> incoming_;  ///< some may have ended
  std::uint32_t current_ = kListener;  ///< of the incoming connections, or none of them
  /// Nobody was there: not asked again before this time.
  std::array<Nanoseconds, host::kNumberSlots> absent_until_{};
  std::array<std::byte, 8192> buffer_;
};

}  // namespace weft::port

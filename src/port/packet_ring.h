// The ring of a packet socket (TPACKET_V2): the kernel puts each frame into a slot, and whoever
// receives reads it there, without a system call. What is too long for a slot waits in the socket's
// queue. A packet that a sender on this machine left to a network card to cut is cut here. Lengths
// and offsets in a slot are the kernel's; they are checked all the same. Owned by a packet port,
// with the socket; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "host/fd.h"
#include "port/raw_port.h"
#include "weft/result.h"

namespace weft::port {

class PacketRing {
 public:
  /// Slots that hold frames of this size, on a socket that is not bound yet.
  static Result<PacketRing> make(const host::Fd& socket, std::size_t frame_bytes);
  PacketRing(PacketRing&& other) noexcept;
  PacketRing& operator=(PacketRing&&) = delete;
  ~PacketRing();

  /// Hands up to `max` frames to the receiver, and all parts of the last one.
  std::size_t receive(RawReceiver& receiver, std::size_t max);

 private:
  PacketRing() = default;
  struct Arrival {
    RawBytes frame;
    bool needs_checksum = false;
    std::size_t part_bytes = 0;  ///< not 0: it is to be cut into parts of so many bytes
  };
  /// How many frames it was; 0: the slot is empty.
  std::size_t hand_up(std::byte* slot, RawReceiver& receiver);
  Arrival take(std::byte* slot, std::uint32_t status);
  RawBytes receive_whole();
  RawBytes with_tag(RawBytes frame, std::uint16_t type, std::uint16_t tag);

  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0, slot_bytes_ = 0, slots_ = 0, next_ = 0;
  int socket_ = -1;
  std::vector<std::byte> tagged_;   ///< a frame whose tag the kernel had taken out
  std::vector<std::byte> whole_;    ///< one that was too long for a slot
  std::vector<std::byte> segment_;  ///< a part of it
};

}  // namespace weft::port

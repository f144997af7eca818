// The ring of a packet socket (TPACKET_V2): the kernel puts each frame into a slot, and whoever
// receives reads it there, without a system call. Lengths and offsets in a slot are the kernel's;
// they are checked all the same. Owned by a packet port; one thread at a time.
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

  std::size_t receive(RawReceiver& receiver, std::size_t max);

 private:
  PacketRing() = default;
  bool hand_up(std::byte* slot, RawReceiver& receiver);

  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0, slot_bytes_ = 0, slots_ = 0, next_ = 0;
  std::vector<std::byte> tagged_;  ///< a frame whose tag the kernel had taken out
};

}  // namespace weft::port

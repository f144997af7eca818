// Many UDP packets of one flow in one call: the kernel takes them as one long packet that it cuts
// at the last moment, or never on a virtual link (generic segmentation offload). Only packets that
// come out of that as they went in: over IPv6, of one length, with the same headers and right
// checksums. Part of the call that sends; the frames are not copied.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>

#include "port/raw_port.h"

namespace weft::port {

/// What stands before a frame where the kernel is told about offloads: virtio_net_hdr.
struct Offload {
  std::uint8_t flags = 0, kind = 0;
  std::uint16_t header_bytes = 0, part_bytes = 0, checksum_from = 0, checksum_at = 0;
};
static_assert(sizeof(Offload) == 10);
inline constexpr std::uint8_t kNotCut = 0;

class PacketTrain {
 public:
  static constexpr std::size_t kMost = 64;

  /// How many of the frames, from the first, can go together; 1: it goes alone.
  static std::size_t length(std::span<const RawBytes> frames);

  /// For frames that length() counted; refers to them.
  explicit PacketTrain(std::span<const RawBytes> frames);
  const msghdr& message() const { return message_; }
  PacketTrain(const PacketTrain&) = delete;
  PacketTrain& operator=(const PacketTrain&) = delete;

 private:
  static constexpr std::size_t kHeaders = 14 + 40 + 8;
  Offload offload_;
  std::array<std::byte, kHeaders> headers_;
  std::array<iovec, kMost + 2> pieces_;
  msghdr message_{};
};

}  // namespace weft::port

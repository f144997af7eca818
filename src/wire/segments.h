// Cuts a TCP or UDP packet that is longer than its link carries into those that a network card
// would have made of it: the kernel hands such packets over whole (generic segmentation offload),
// and expects a card to cut them. Checksums of the upper layer are left to the caller. Stateless.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "wire/raw_packet.h"

namespace weft::wire {

/// Calls visit(frame) for each part, in order, with at most `part_bytes` of payload each; the bytes
/// live until it returns. `room` is scratch memory. False: it is nothing that can be cut so.
bool for_each_segment(std::span<const std::byte> frame, const RawPacket& headers,
                      std::size_t part_bytes, std::vector<std::byte>& room,
                      const std::function<void(std::span<const std::byte>)>& visit);

}  // namespace weft::wire

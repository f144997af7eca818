// Answers for addresses that queue pairs have claimed and no stack of the kernel's has: who asks
// the link for the owner (neighbour discovery, ARP) is told the interface's link address. Stateless
// functions over whole Ethernet frames; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "weft/raw.h"
#include "weft/types.h"
#include "wire/raw_packet.h"

namespace weft::network {

/// The address whose owner a frame asks for; nothing: it asks for none, or not as it should.
std::optional<Gid> asked_for(std::span<const std::byte> frame, const wire::RawPacket& headers);

/// The answer to that frame: `owner` has the address.
std::vector<std::byte> neighbour_answer(std::span<const std::byte> frame,
                                        const wire::RawPacket& headers, const Gid& address,
                                        const LinkAddress& owner);

}  // namespace weft::network

// An IPv4 header's identification is covered by the ICRC, but a UDP socket does not tell it. Since
// a CRC is linear, the difference between the stored ICRC and the one over identification 0 says
// which identification the sender had, if any: 16 of the 32 bits are left to check the packet.
// Stateless, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace weft::wire {

/// `computed`: the ICRC over identification 0; `stored`: the packet's; `packet_bytes`: from the BTH
/// to the pad. Nothing: no identification explains the difference, the packet is damaged.
std::optional<std::uint16_t> find_identification(std::uint32_t computed, std::uint32_t stored,
                                                 std::size_t packet_bytes);

}  // namespace weft::wire

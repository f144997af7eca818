// Finds out which IPv4 identification a sender used. The ICRC covers it, but a UDP socket does not
// tell it: the kernel takes the header off. A CRC is linear, so what a wrong guess leaves over
// names the right one: 65,536 of the 2^32 remainders are those of an identification, the others are
// damage. Stateless, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace weft::wire {

/// `remainder` is the ICRC computed with identification `guess`, xor the one that came;
/// `packet_bytes` counts from the BTH to the pad. Nothing when no identification explains it.
std::optional<std::uint16_t> recover_identification(std::uint32_t remainder,
                                                    std::size_t packet_bytes, std::uint16_t guess);

}  // namespace weft::wire

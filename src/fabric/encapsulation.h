// How a RoCE v2 packet becomes a frame of the fabric, and back. Stateless functions; any thread.
//
//   RoCE v2:    IP | UDP | BTH ... payload, pad | ICRC
//   fabric:    LRH | GRH | BTH ... payload, pad | ICRC | VCRC
//
// The GRH has the addresses (IPv4 ones in their mapped form), the traffic class and the hop limit
// of the IP header. The UDP source port, which keeps flows apart, becomes the flow label; a flow
// label that an IPv6 header had gives way to it. Each check code is confirmed before it is made
// anew: the ICRC covers other headers there than here. What a router may change (LRH, hop limit) it
// leaves out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tl/expected.hpp>

#include "weft/types.h"
#include "wire/icrc.h"
#include "wire/ipv6.h"
#include "wire/lrh.h"
#include "wire/parse_error.h"

namespace weft::fabric {

inline constexpr std::size_t kVcrcSize = 2;
inline constexpr std::size_t kFrameHeaderBytes = wire::Lrh::kSize + wire::Grh::kSize;
/// What a frame has more than the BTH to the pad of its packet.
inline constexpr std::size_t kFrameExtraBytes = kFrameHeaderBytes + wire::kIcrcSize + kVcrcSize;
/// The next header of a GRH: the transport of InfiniBand.
inline constexpr std::uint8_t kNextHeaderBth = 0x1B;

struct LocalRoute {
  Lid source, destination;
  std::uint8_t service_level = 0;
};

/// The frame's size, or why the packet was refused. `frame` has room for the packet and
/// kFrameExtraBytes more.
tl::expected<std::size_t, wire::ParseError> to_frame(std::span<const std::byte> roce_packet,
                                                     const LocalRoute& route,
                                                     std::span<std::byte> frame);
/// The packet's size. `packet` has room for the frame.
tl::expected<std::size_t, wire::ParseError> to_roce(std::span<const std::byte> frame,
                                                    std::span<std::byte> packet);

/// Stores the check code of one hop at the frame's end; it covers all the rest.
void seal_hop(std::span<std::byte> frame);
bool hop_check_matches(std::span<const std::byte> frame);

}  // namespace weft::fabric

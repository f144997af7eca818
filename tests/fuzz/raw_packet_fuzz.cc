// Any bytes as a frame that arrives at a raw port, and as a packet that a raw queue pair sends:
// they are never read outside their bounds, and what is found in them lies inside.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"
#include "network/neighbour_answer.h"
#include "network/raw_claims.h"
#include "wire/raw_packet.h"
#include "wire/segments.h"
#include "wire/toeplitz.h"

namespace {

using weft::wire::RawFault;
using weft::wire::RawPacket;
using Bytes = std::vector<std::byte>;

void check(const RawPacket& packet, std::size_t size) {
  WEFT_ASSERT(packet.network_at <= size);
  WEFT_ASSERT(packet.network_at + packet.upper_at <= size);
  if (packet.fault != RawFault::kNone || packet.version == 0) return;
  WEFT_ASSERT(packet.network_at + packet.bytes <= size);
  WEFT_ASSERT(packet.upper_at <= packet.bytes);
  WEFT_ASSERT(!packet.has_ports || packet.upper_at + 4 <= size);
}

/// Parts have the payload of the whole, and no faults of their own.
void check_segments(const Bytes& frame, const RawPacket& packet) {
  Bytes room;
  std::size_t parts = 0;
  weft::wire::for_each_segment(frame, packet, 40, room, [&](std::span<const std::byte> part) {
    const RawPacket read = weft::wire::parse_raw_frame(part);
    WEFT_ASSERT(read.upper_at == packet.upper_at && read.protocol == packet.protocol);
    WEFT_ASSERT(part.size() <= frame.size());
    ++parts;
  });
  WEFT_ASSERT(parts <= frame.size() / 40 + 1);
}

const weft::network::RawClaims& some_claims() {
  static const auto& claims = *new weft::network::RawClaims([] {
    weft::network::RawClaims all;
    std::uint32_t qpn = 1;
    for (const auto& key : {weft::RawKey{}, weft::RawKey{.next_header = 17},
                            weft::RawKey{.destination = weft::Gid{{0xFD}}}}) {
      weft::network::RawClaim claim;
      claim.qpn = weft::Qpn(qpn);
      claim.match = weft::network::match_of(key);
      claim.packets_only = qpn++ % 2 == 0;
      static_cast<void>(all.add(claim));
    }
    return all;
  }());
  return claims;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A copy of exactly this size, so that a sanitizer sees a read past its end.
  const auto bytes = std::as_bytes(std::span(data, size));
  Bytes in(bytes.begin(), bytes.end());
  check(weft::wire::parse_raw_packet(in), size);
  const RawPacket frame = weft::wire::parse_raw_frame(in);
  check(frame, size);
  check_segments(in, frame);
  some_claims().match(frame, [](const auto& row) { WEFT_ASSERT(row.claim.qpn.value <= 3); });
  constexpr weft::wire::HashedFields kAll{true, true, true, true, true, true, true, true};
  static_cast<void>(weft::wire::hash_of(frame, kAll, {0x6D, 0x5A}));
  if (const auto asked = weft::network::asked_for(in, frame)) {
    const auto answer = weft::network::neighbour_answer(in, frame, *asked, {2, 0, 0, 0, 0, 1});
    WEFT_ASSERT(weft::wire::parse_raw_frame(answer).fault == RawFault::kNone);
  }
  weft::wire::fill_upper_checksum(std::span(in).subspan(frame.network_at), frame);
  return 0;
}

#include "fabric/encapsulation.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "base/big_endian.h"
#include "network/roce.h"
#include "wire/crc32.h"
#include "wire/datagram.h"

namespace weft::fabric {
namespace {

constexpr std::uint16_t kLeastSourcePort = 0xC000;

/// InfiniBand's: ones for the LRH and for the GRH's class, flow label and hop limit.
std::uint32_t frame_icrc(std::span<const std::byte> grh, std::span<const std::byte> packet) {
  std::array<std::byte, wire::Lrh::kSize + wire::Grh::kSize> masked;
  masked.fill(wire::kOnes);
  std::ranges::copy(grh, masked.begin() + wire::Lrh::kSize);
  std::byte* at = masked.data() + wire::Lrh::kSize;
  at[0] |= std::byte{0x0F};
  at[1] = at[2] = at[3] = at[7] = wire::kOnes;
  std::uint32_t crc = wire::crc32(0, masked);
  crc = wire::crc32(crc, packet.first(wire::kUncheckedByte));
  crc = wire::crc32(crc, std::span(&wire::kOnes, 1));
  return wire::crc32(crc, packet.subspan(wire::kUncheckedByte + 1));
}

void store_icrc(std::uint32_t crc, std::span<std::byte> out) {
  for (std::size_t i = 0; i < wire::kIcrcSize; ++i) out[i] = static_cast<std::byte>(crc >> 8 * i);
}

std::uint16_t hop_check(std::span<const std::byte> bytes) {
  constexpr unsigned kPolynomial = 0xD008;  // 0x100B, the lowest bit first
  unsigned crc = 0xFFFF;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<unsigned>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ kPolynomial : crc >> 1;
  }
  return static_cast<std::uint16_t>(~crc);
}

}  // namespace

void seal_hop(std::span<std::byte> frame) {
  WEFT_ASSERT(frame.size() > kVcrcSize);
  const auto covered = frame.first(frame.size() - kVcrcSize);
  base::store_be<std::uint16_t>(&frame[covered.size()], hop_check(covered));
}

bool hop_check_matches(std::span<const std::byte> frame) {
  if (frame.size() <= kVcrcSize) return false;
  const auto covered = frame.first(frame.size() - kVcrcSize);
  return base::load_be<std::uint16_t>(&frame[covered.size()]) == hop_check(covered);
}

tl::expected<std::size_t, wire::ParseError> to_frame(std::span<const std::byte> roce_packet,
                                                     const LocalRoute& route,
                                                     std::span<std::byte> frame) {
  const auto datagram = wire::check_datagram(roce_packet);
  if (!datagram) return tl::unexpected(datagram.error());
  wire::Udp udp;
  udp.read(datagram->udp_header);
  wire::Grh grh;
  if (datagram->is_ipv4()) {
    const wire::Ipv4 ip = wire::Ipv4::parse(datagram->ip_header).value();
    grh.source = ip.source_gid();
    grh.destination = ip.destination_gid();
    grh.traffic_class = ip.type_of_service;
    grh.hop_limit = ip.time_to_live;
  } else {
    grh = wire::Ipv6::parse(datagram->ip_header).value();
  }
  const std::size_t transport = datagram->packet.size() + wire::kIcrcSize;
  const std::size_t size = kFrameHeaderBytes + transport + kVcrcSize;
  WEFT_ASSERT(frame.size() >= size);
  grh.next_header = kNextHeaderBth;
  grh.flow_label = udp.source_port;
  grh.payload_length = static_cast<std::uint16_t>(transport);
  wire::Lrh lrh;
  lrh.service_level = route.service_level;
  lrh.source = route.source;
  lrh.destination = route.destination;
  lrh.words = static_cast<std::uint16_t>((kFrameHeaderBytes + transport) / 4);
  lrh.emit(frame);
  grh.emit(frame.subspan(wire::Lrh::kSize));
  std::ranges::copy(datagram->packet, frame.begin() + kFrameHeaderBytes);
  store_icrc(frame_icrc(frame.subspan(wire::Lrh::kSize, wire::Grh::kSize), datagram->packet),
             frame.subspan(kFrameHeaderBytes + datagram->packet.size()));
  seal_hop(frame.first(size));
  return size;
}

tl::expected<std::size_t, wire::ParseError> to_roce(std::span<const std::byte> frame,
                                                    std::span<std::byte> packet) {
  if (frame.size() < kFrameExtraBytes + wire::Bth::kSize) {
    return tl::unexpected(wire::ParseError::kTruncated);
  }
  const auto lrh = wire::Lrh::parse(frame);
  if (!lrh) return tl::unexpected(lrh.error());
  const auto grh_bytes = frame.subspan(wire::Lrh::kSize, wire::Grh::kSize);
  const auto grh = wire::Grh::parse(grh_bytes);
  if (!grh) return tl::unexpected(grh.error());
  const std::size_t transport = frame.size() - kFrameHeaderBytes - kVcrcSize;
  if (lrh->words * std::size_t{4} != frame.size() - kVcrcSize || grh->payload_length != transport ||
      lrh->next_header != wire::LinkNextHeader::kGrh || grh->next_header != kNextHeaderBth) {
    return tl::unexpected(wire::ParseError::kBadIpLength);
  }
  const auto inner = frame.subspan(kFrameHeaderBytes, transport - wire::kIcrcSize);
  std::array<std::byte, wire::kIcrcSize> icrc;
  store_icrc(frame_icrc(grh_bytes, inner), icrc);
  if (!std::ranges::equal(icrc, frame.subspan(kFrameHeaderBytes + inner.size(), icrc.size())) ||
      !hop_check_matches(frame)) {
    return tl::unexpected(wire::ParseError::kBadIcrc);
  }
  network::Flow flow;
  flow.source = grh->source;
  flow.destination = grh->destination;
  flow.traffic_class = grh->traffic_class;
  flow.hop_limit = grh->hop_limit;
  flow.source_port = static_cast<std::uint16_t>(grh->flow_label | kLeastSourcePort);
  const std::size_t headers = network::emit_headers(flow, transport, packet);
  std::ranges::copy(inner, packet.begin() + static_cast<std::ptrdiff_t>(headers));
  network::start_icrc(flow, transport)
      .add_first(inner)
      .store(packet.subspan(headers + inner.size()).first<wire::kIcrcSize>());
  return headers + transport;
}

}  // namespace weft::fabric

#include "wire/raw_packet.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/big_endian.h"
#include "wire/internet_checksum.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"

namespace weft::wire {
namespace {

constexpr std::size_t kTagBytes = 4;
constexpr std::uint8_t kJumboOption = 0xC2, kPadOption = 0;
constexpr std::size_t kTcpChecksumAt = 16, kUdpChecksumAt = 6;

std::uint8_t byte_at(std::span<const std::byte> bytes, std::size_t at) {
  return std::to_integer<std::uint8_t>(bytes[at]);
}

/// The first fault counts: what is found behind it may only follow from it.
void note(RawPacket& out, RawFault fault) {
  if (out.fault == RawFault::kNone) out.fault = fault;
}

bool is_extension(std::uint8_t header) {
  return header == kHopByHopOptions || header == kRoutingHeader || header == kFragmentHeader ||
         header == kAuthenticationHeader || header == kDestinationOptions;
}

/// Of the extension header that begins here, of which there are 8 bytes at least.
std::size_t extension_bytes(std::uint8_t header, std::span<const std::byte> from) {
  const std::size_t length = byte_at(from, 1);
  if (header == kFragmentHeader) return 8;
  return header == kAuthenticationHeader ? 4 * (length + 2) : 8 * (length + 1);
}

/// Options are a type, a length and so many bytes; one byte of padding stands alone.
bool has_jumbo_option(std::span<const std::byte> options) {
  for (std::size_t at = 0; at < options.size();) {
    const std::uint8_t type = byte_at(options, at);
    if (type == kJumboOption) return true;
    if (type == kPadOption) {
      ++at;
    } else if (at + 1 < options.size()) {
      at += 2 + std::size_t{byte_at(options, at + 1)};
    } else {
      break;
    }
  }
  return false;
}

void read_ports(std::span<const std::byte> packet, RawPacket& out) {
  const bool has = out.protocol == kIpProtocolTcp || out.protocol == kIpProtocolUdp;
  if (!has || out.upper_at == 0 || out.upper_at + 4 > packet.size()) return;
  out.has_ports = true;
  out.source_port = base::load_be<std::uint16_t>(packet.data() + out.upper_at);
  out.destination_port = base::load_be<std::uint16_t>(packet.data() + out.upper_at + 2);
}

/// `packet` ends where its header says, or where the bytes end.
void walk_extensions(std::span<const std::byte> packet, std::uint8_t next, RawPacket& out) {
  std::size_t at = Ipv6::kSize;
  for (unsigned seen = 0; is_extension(next); ++seen) {
    if (seen == kMostExtensionHeaders) return note(out, RawFault::kTooManyExtensions);
    const bool misplaced = next == kHopByHopOptions && seen != 0;
    if (misplaced || at + 8 > packet.size()) return note(out, RawFault::kBadExtension);
    const auto rest = packet.subspan(at);
    const std::size_t size = extension_bytes(next, rest);
    if (size > rest.size()) return note(out, RawFault::kBadExtension);
    if (next == kHopByHopOptions && has_jumbo_option(rest.subspan(2, size - 2))) {
      note(out, RawFault::kJumbo);
    }
    const bool fragment = next == kFragmentHeader;
    next = byte_at(rest, 0);
    at += size;
    if (!fragment) continue;
    const auto offset = base::load_be<std::uint16_t>(rest.data() + 2);
    out.is_fragment = (offset & 0xFFF9) != 0;
    if ((offset & 0xFFF8) != 0) {  // the upper layer's header went with the first one
      out.protocol = next;
      return;
    }
  }
  out.protocol = next;
  out.upper_at = at;
}

void read_ipv6(std::span<const std::byte> packet, RawPacket& out) {
  const auto header = Ipv6::parse(packet);
  if (!header) return note(out, RawFault::kTruncated);
  out.version = 6;
  out.traffic_class = header->traffic_class;
  out.flow_label = header->flow_label;
  out.hop_limit = header->hop_limit;
  out.source = header->source;
  out.destination = header->destination;
  out.bytes = Ipv6::kSize + header->payload_length;
  if (header->payload_length == 0 && header->next_header != kNoNextHeader) {
    note(out, header->next_header == kHopByHopOptions ? RawFault::kJumbo : RawFault::kBadLength);
  }
  if (out.bytes > packet.size()) note(out, RawFault::kTruncated);
  if (header->source.is_multicast()) note(out, RawFault::kBadSource);
  const auto inside = packet.first(std::min(out.bytes, packet.size()));
  walk_extensions(inside, header->next_header, out);
  read_ports(inside, out);
}

void read_ipv4(std::span<const std::byte> packet, RawPacket& out) {
  const std::size_t header_bytes = std::size_t{byte_at(packet, 0) & 0x0Fu} * 4;
  if (header_bytes < Ipv4::kSize) return note(out, RawFault::kBadLength);
  if (packet.size() < header_bytes) return note(out, RawFault::kTruncated);
  std::array<std::byte, Ipv4::kSize>
      plain;  // the fields of one with options are at the same places
  std::copy_n(packet.begin(), plain.size(), plain.begin());
  plain[0] = std::byte{0x45};
  const Ipv4 header = Ipv4::parse(plain).value();
  out.version = 4;
  out.traffic_class = header.type_of_service;
  out.hop_limit = header.time_to_live;
  out.protocol = header.protocol;
  out.source = header.source_gid();
  out.destination = header.destination_gid();
  out.is_fragment = header.is_fragment();
  out.bytes = header.total_length;
  if (out.bytes < header_bytes) note(out, RawFault::kBadLength);
  if (out.bytes > packet.size()) note(out, RawFault::kTruncated);
  if (out.source.is_multicast()) note(out, RawFault::kBadSource);
  if (header.fragment_offset == 0) out.upper_at = header_bytes;
  read_ports(packet, out);
}

void read_ip(std::span<const std::byte> packet, RawPacket& out) {
  if (packet.empty()) return note(out, RawFault::kTruncated);
  const unsigned version = byte_at(packet, 0) >> 4;
  const bool as_typed = out.type == 0 || (version == 6) == (out.type == kEtherTypeIpv6);
  if ((version != 4 && version != 6) || !as_typed) return note(out, RawFault::kBadVersion);
  version == 6 ? read_ipv6(packet, out) : read_ipv4(packet, out);
}

}  // namespace

std::string_view to_string(RawFault fault) {
  switch (fault) {
    case RawFault::kNone:
      return "no fault";
    case RawFault::kTruncated:
      return "truncated";
    case RawFault::kBadVersion:
      return "bad IP version";
    case RawFault::kBadLength:
      return "bad IP length";
    case RawFault::kBadExtension:
      return "bad extension header";
    case RawFault::kTooManyExtensions:
      return "too many extension headers";
    case RawFault::kJumbo:
      return "jumbo payload";
    case RawFault::kBadSource:
      return "bad source address";
  }
  return "unknown fault";
}

RawPacket parse_raw_packet(std::span<const std::byte> packet) {
  RawPacket out;
  read_ip(packet, out);
  return out;
}

RawPacket parse_raw_frame(std::span<const std::byte> frame) {
  RawPacket out;
  const auto header = Ethernet::parse(frame);
  if (!header) {
    out.fault = RawFault::kTruncated;
    return out;
  }
  out.link_destination = header->destination;
  out.link_source = header->source;
  out.type = header->type;
  out.network_at = Ethernet::kSize;
  if (out.type == kEtherTypeVlan) {
    if (frame.size() < Ethernet::kSize + kTagBytes) {
      out.fault = RawFault::kTruncated;
      return out;
    }
    out.vlan_tag = base::load_be<std::uint16_t>(frame.data() + Ethernet::kSize);
    out.type = base::load_be<std::uint16_t>(frame.data() + Ethernet::kSize + 2);
    out.network_at += kTagBytes;
  }
  if (out.type == kEtherTypeIpv6 || out.type == kEtherTypeIpv4) {
    read_ip(frame.subspan(out.network_at), out);
  }
  return out;
}

void fill_upper_checksum(std::span<std::byte> packet, const RawPacket& headers) {
  const bool tcp = headers.protocol == kIpProtocolTcp;
  const std::size_t at = headers.upper_at + (tcp ? kTcpChecksumAt : kUdpChecksumAt);
  const std::size_t end = std::min(headers.bytes, packet.size());
  if (headers.fault != RawFault::kNone || headers.is_fragment || headers.upper_at == 0 ||
      (!tcp && headers.protocol != kIpProtocolUdp) || at + 2 > end) {
    return;
  }
  store_sum(packet.data() + at, 0);
  const std::size_t bytes = end - headers.upper_at;
  const std::uint64_t sum =
      sum_of_pseudo_header(headers.source, headers.destination, headers.protocol, bytes) +
      sum_of(packet.subspan(headers.upper_at, bytes));
  auto checksum = static_cast<std::uint16_t>(~folded(sum));
  if (checksum == 0 && !tcp) checksum = 0xFFFF;  // 0 says that there is none
  store_sum(packet.data() + at, checksum);
}

}  // namespace weft::wire

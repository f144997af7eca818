#include "wire/datagram.h"

#include "wire/ipv4.h"
#include "wire/ipv6.h"

namespace weft::wire {
namespace {

struct IpExtent {
  std::size_t header;
  std::size_t total;  ///< header and what it carries
};

tl::expected<IpExtent, ParseError> ipv4_extent(std::span<const std::byte> in) {
  const auto ip = Ipv4::parse(in);
  if (!ip) return tl::unexpected(ip.error());
  if (ip->is_fragment()) return tl::unexpected(ParseError::kIpFragment);
  if (ip->protocol != kIpProtocolUdp) return tl::unexpected(ParseError::kNotUdp);
  return IpExtent{Ipv4::kSize, ip->total_length};
}

tl::expected<IpExtent, ParseError> ipv6_extent(std::span<const std::byte> in) {
  const auto ip = Ipv6::parse(in);
  if (!ip) return tl::unexpected(ip.error());
  if (ip->next_header != kIpProtocolUdp) return tl::unexpected(ParseError::kNotUdp);
  return IpExtent{Ipv6::kSize, Ipv6::kSize + ip->payload_length};
}

tl::expected<IpExtent, ParseError> ip_extent(std::span<const std::byte> in) {
  if (in.empty()) return tl::unexpected(ParseError::kTruncated);
  switch (std::to_integer<unsigned>(in[0]) >> 4) {
    case 4:
      return ipv4_extent(in);
    case 6:
      return ipv6_extent(in);
    default:
      return tl::unexpected(ParseError::kBadIpVersion);
  }
}

}  // namespace

tl::expected<Datagram, ParseError> split_datagram(std::span<const std::byte> from_ip_header) {
  const auto ip = ip_extent(from_ip_header);
  if (!ip) return tl::unexpected(ip.error());
  if (ip->total < ip->header + Udp::kSize + Bth::kSize + kIcrcSize) {
    return tl::unexpected(ParseError::kBadIpLength);
  }
  if (ip->total > from_ip_header.size()) return tl::unexpected(ParseError::kTruncated);
  const auto whole = from_ip_header.first(ip->total);
  const auto udp_header = whole.subspan(ip->header).first<Udp::kSize>();
  Udp udp;
  udp.read(udp_header);
  if (udp.destination_port != kRoceUdpPort) return tl::unexpected(ParseError::kWrongPort);
  if (udp.length != whole.size() - ip->header) return tl::unexpected(ParseError::kBadUdpLength);
  const std::size_t packet_at = ip->header + Udp::kSize;
  return Datagram{whole.first(ip->header), udp_header,
                  whole.subspan(packet_at, whole.size() - packet_at - kIcrcSize),
                  whole.last<kIcrcSize>()};
}

Icrc compute_icrc(const Datagram& datagram) {
  Icrc icrc = datagram.is_ipv4()
                  ? Icrc::over_ipv4(datagram.ip_header.first<Ipv4::kSize>(), datagram.udp_header)
                  : Icrc::over_ipv6(datagram.ip_header.first<Ipv6::kSize>(), datagram.udp_header);
  return icrc.add_first(datagram.packet);
}

tl::expected<Datagram, ParseError> check_datagram(std::span<const std::byte> from_ip_header) {
  auto datagram = split_datagram(from_ip_header);
  if (datagram && !compute_icrc(*datagram).matches(datagram->icrc)) {
    return tl::unexpected(ParseError::kBadIcrc);
  }
  return datagram;
}

}  // namespace weft::wire

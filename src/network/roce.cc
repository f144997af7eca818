#include "network/roce.h"

#include "wire/bth.h"
#include "wire/deth.h"
#include "wire/immediate.h"
#include "wire/packet.h"

namespace weft::network {
namespace {

wire::Ipv4::Address ipv4_address(const Gid& gid) {
  return {gid.raw[12], gid.raw[13], gid.raw[14], gid.raw[15]};
}

wire::Ipv4 ipv4_header(const GlobalRoute& route, std::size_t transport_bytes) {
  wire::Ipv4 ip;
  ip.type_of_service = route.traffic_class;
  ip.total_length =
      static_cast<std::uint16_t>(wire::Ipv4::kSize + wire::Udp::kSize + transport_bytes);
  ip.time_to_live = route.hop_limit;
  ip.source = ipv4_address(route.source);
  ip.destination = ipv4_address(route.destination);
  return ip;
}

wire::Ipv6 ipv6_header(const GlobalRoute& route, std::size_t transport_bytes) {
  wire::Ipv6 ip;
  ip.traffic_class = route.traffic_class;
  ip.flow_label = route.flow_label;
  ip.payload_length = static_cast<std::uint16_t>(wire::Udp::kSize + transport_bytes);
  ip.hop_limit = route.hop_limit;
  ip.source = route.source;
  ip.destination = route.destination;
  return ip;
}

wire::Udp udp_header(const Flow& flow, std::size_t transport_bytes) {
  wire::Udp udp;
  udp.source_port = flow.source_port;
  udp.length = static_cast<std::uint16_t>(wire::Udp::kSize + transport_bytes);
  return udp;
}

}  // namespace

std::uint16_t source_port_for(Qpn local, Qpn remote) {
  const std::uint32_t mixed = (local.value * 0x9E3779B1u) ^ (remote.value * 0x85EBCA6Bu);
  return static_cast<std::uint16_t>(0xC000 | ((mixed >> 16 ^ mixed) & 0x3FFF));
}

std::size_t emit_headers(const Flow& flow, std::size_t transport_bytes, std::span<std::byte> out) {
  std::size_t size = 0;
  if (flow.is_ipv4()) {
    wire::Ipv4 ip = ipv4_header(flow, transport_bytes);
    ip.checksum = ip.compute_checksum();
    ip.emit(out);
    size = wire::Ipv4::kSize;
  } else {
    ipv6_header(flow, transport_bytes).emit(out);
    size = wire::Ipv6::kSize;
  }
  udp_header(flow, transport_bytes).emit(out.subspan(size));
  return size + wire::Udp::kSize;
}

wire::Icrc start_icrc(const Flow& flow, std::size_t transport_bytes) {
  std::array<std::byte, kMaxNetworkHeaderBytes> bytes;
  if (flow.is_ipv4()) {
    ipv4_header(flow, transport_bytes).emit(bytes);
    udp_header(flow, transport_bytes).emit(std::span(bytes).subspan(wire::Ipv4::kSize));
    return wire::Icrc::over_ipv4(std::span(bytes).first<wire::Ipv4::kSize>(),
                                 std::span(bytes).subspan<wire::Ipv4::kSize, wire::Udp::kSize>());
  }
  ipv6_header(flow, transport_bytes).emit(bytes);
  udp_header(flow, transport_bytes).emit(std::span(bytes).subspan(wire::Ipv6::kSize));
  return wire::Icrc::over_ipv6(std::span(bytes).first<wire::Ipv6::kSize>(),
                               std::span(bytes).subspan<wire::Ipv6::kSize, wire::Udp::kSize>());
}

wire::IcrcPrefix icrc_prefix(const Flow& flow) {
  const wire::Udp udp = udp_header(flow, 0);
  return flow.is_ipv4() ? wire::IcrcPrefix(ipv4_header(flow, 0), udp)
                        : wire::IcrcPrefix(ipv6_header(flow, 0), udp);
}

wire::GrhBytes make_grh(const GlobalRoute& route, std::size_t transport_bytes) {
  wire::GrhBytes grh{};
  if (route.is_ipv4()) {
    wire::Ipv4 ip = ipv4_header(route, transport_bytes);
    ip.checksum = ip.compute_checksum();
    ip.emit(std::span(grh).subspan(wire::Ipv6::kSize - wire::Ipv4::kSize));
  } else {
    ipv6_header(route, transport_bytes).emit(grh);
  }
  return grh;
}

wire::GrhBytes make_datagram_grh(const GlobalRoute& route, std::size_t bytes, bool has_immediate) {
  const std::size_t headers =
      wire::Bth::kSize + wire::Deth::kSize + (has_immediate ? wire::Immediate::kSize : 0);
  return make_grh(route, headers + bytes + wire::pad_for(bytes) + wire::kIcrcSize);
}

}  // namespace weft::network

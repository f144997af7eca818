#include "port/udp_datagram.h"

#include "network/roce.h"
#include "wire/bth.h"
#include "wire/icrc.h"

namespace weft::port {

tl::expected<Incoming, Drop> to_incoming(const Arrival& arrival, const Gid& local) {
  const std::span<const std::byte> bytes = arrival.bytes;
  const auto from = to_endpoint(arrival.from);
  // Both of one family: a mapped IPv4 address has no business in an IPv6 header.
  if (arrival.truncated || bytes.size() < wire::Bth::kSize + wire::kIcrcSize || !from ||
      from->address.is_ipv4() != local.is_ipv4()) {
    return tl::unexpected(Drop::kMalformed);
  }
  Incoming incoming;
  incoming.flow.source = from->address;
  incoming.flow.destination = local;
  incoming.flow.source_port = from->port;
  incoming.flow.traffic_class = arrival.traffic_class;
  incoming.flow.hop_limit = arrival.hop_limit;
  incoming.packet = bytes.first(bytes.size() - wire::kIcrcSize);
  wire::Icrc icrc = network::start_icrc(incoming.flow, bytes.size());
  if (!icrc.add_first(incoming.packet).matches(bytes.last<wire::kIcrcSize>())) {
    return tl::unexpected(Drop::kBadChecksum);
  }
  return incoming;
}

}  // namespace weft::port

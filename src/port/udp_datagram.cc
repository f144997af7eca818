#include "port/udp_datagram.h"

#include "wire/bth.h"
#include "wire/icrc.h"
#include "wire/identification.h"

namespace weft::port {
namespace {

/// Linux's rxe counts its IPv4 identifications, and a socket does not tell them.
bool matches_another_identification(std::uint32_t computed, std::span<const std::byte> packet,
                                    std::span<const std::byte, wire::kIcrcSize> stored) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    value |= std::to_integer<std::uint32_t>(stored[i]) << (8 * i);
  }
  return wire::find_identification(computed, value, packet.size()).has_value();
}

}  // namespace

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
  const auto stored = bytes.last<wire::kIcrcSize>();
  if (!icrc.add_first(incoming.packet).matches(stored) &&
      !(local.is_ipv4() && !arrival.identification_is_zero &&
        matches_another_identification(icrc.value(), incoming.packet, stored))) {
    return tl::unexpected(Drop::kBadChecksum);
  }
  return incoming;
}

}  // namespace weft::port

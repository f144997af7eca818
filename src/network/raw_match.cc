#include "network/raw_match.h"

#include <bit>

namespace weft::network {
namespace {

template <std::size_t kBytes>
unsigned bits_of(const MaskedBytes<kBytes>& field) {
  unsigned bits = 0;
  for (const std::uint8_t byte : field.mask) bits += static_cast<unsigned>(std::popcount(byte));
  return bits;
}
template <class T>
unsigned bits_of(const Masked<T>& field) {
  return static_cast<unsigned>(std::popcount(field.mask));
}

}  // namespace

bool RawMatch::matches(const wire::RawPacket& packet) const {
  const bool link = link_destination.matches(packet.link_destination) &&
                    link_source.matches(packet.link_source) && type.matches(packet.type) &&
                    vlan_tag.matches(packet.vlan_tag);
  if (!link) return false;
  if (link_group_only && (static_cast<unsigned>(packet.link_destination[0]) & 1u) == 0) {
    return false;
  }
  if (version == 0) return true;
  const bool ip = packet.version == version && protocol.matches(packet.protocol) &&
                  traffic_class.matches(packet.traffic_class) &&
                  hop_limit.matches(packet.hop_limit) && flow_label.matches(packet.flow_label) &&
                  source.matches(packet.source.raw) && destination.matches(packet.destination.raw);
  if (!ip || (source_port.any() && destination_port.any())) return ip;
  return packet.has_ports && source_port.matches(packet.source_port) &&
         destination_port.matches(packet.destination_port);
}

unsigned RawMatch::bits() const {
  return bits_of(link_destination) + bits_of(link_source) + bits_of(type) + bits_of(vlan_tag) +
         (version != 0 ? 4 : 0) + bits_of(protocol) + bits_of(traffic_class) + bits_of(hop_limit) +
         bits_of(flow_label) + bits_of(source) + bits_of(destination) + bits_of(source_port) +
         bits_of(destination_port) + (link_group_only ? 1 : 0);
}

bool RawMatch::names(const Gid& address) const {
  if (version == 0 || (version == 4) != address.is_ipv4()) return false;
  // Of a mapped address the last four bytes are enough.
  const std::size_t from = version == 4 ? 12 : 0;
  for (std::size_t i = from; i < destination.mask.size(); ++i) {
    if (destination.mask[i] != 0xFF) return false;
  }
  return destination.matches(address.raw);
}

bool RawMatch::is_for_group() const {
  const bool link_group = (link_destination.value[0] & link_destination.mask[0] & 1u) != 0;
  return link_group || (!destination.any() && Gid{destination.value}.is_multicast());
}

RawMatch match_of(const RawKey& key) {
  RawMatch match;
  if (key.link_destination) match.link_destination.set_all(*key.link_destination);
  if (key.destination) {
    match.version = key.destination->is_ipv4() ? 4 : 6;
    match.destination.set_all(key.destination->raw);
  }
  if (key.next_header) {
    // Without an address it is IPv6's: the numbers of IPv4's protocols are the same ones.
    if (match.version == 0) match.version = 6;
    match.protocol = {*key.next_header, 0xFF};
  }
  return match;
}

}  // namespace weft::network

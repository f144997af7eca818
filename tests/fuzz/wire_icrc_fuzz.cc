// Any bytes as a datagram from its IP header on: splitting and checking never read outside them.
// For those that split, the ICRC is the same however it is computed, is accepted once it is stored,
// and is refused when the packet changes by one bit.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"
#include "wire/datagram.h"

namespace wire = weft::wire;

namespace {

wire::Icrc start_by_prefix(const wire::Datagram& datagram) {
  wire::Udp udp;
  udp.read(datagram.udp_header);
  if (datagram.is_ipv4()) {
    const auto ip = wire::Ipv4::parse(datagram.ip_header);
    WEFT_ASSERT(ip.has_value());
    return wire::IcrcPrefix(*ip, udp).start(udp.length, ip->identification);
  }
  const auto ip = wire::Ipv6::parse(datagram.ip_header);
  WEFT_ASSERT(ip.has_value());
  return wire::IcrcPrefix(*ip, udp).start(udp.length);
}

/// In pieces whose sizes the input decides.
wire::Icrc add_in_pieces(wire::Icrc icrc, std::span<const std::byte> packet) {
  icrc.add_first(packet.first(wire::Bth::kSize));
  std::span<const std::byte> rest = packet.subspan(wire::Bth::kSize);
  while (!rest.empty()) {
    const std::size_t wish = std::to_integer<std::size_t>(rest[0]) + 1;
    const std::size_t size = wish < rest.size() ? wish : rest.size();
    icrc.add(rest.first(size));
    rest = rest.subspan(size);
  }
  return icrc;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  std::vector<std::byte> in(bytes.begin(), bytes.end());
  const auto datagram = wire::split_datagram(in);
  const auto checked = wire::check_datagram(in);
  if (!datagram) {
    WEFT_ASSERT(!checked && checked.error() == datagram.error());
    return 0;
  }
  const wire::Icrc whole = wire::compute_icrc(*datagram);
  WEFT_ASSERT(checked.has_value() == whole.matches(datagram->icrc));
  const wire::Icrc pieces = add_in_pieces(start_by_prefix(*datagram), datagram->packet);
  WEFT_ASSERT(pieces.value() == whole.value());

  const auto icrc_at = static_cast<std::size_t>(datagram->icrc.data() - in.data());
  whole.store(std::span(in).subspan(icrc_at).first<wire::kIcrcSize>());
  WEFT_ASSERT(wire::check_datagram(in).has_value());
  in[icrc_at - 1] ^= std::byte{1};
  WEFT_ASSERT(!wire::check_datagram(in).has_value());
  return 0;
}

#include "network/neighbour_answer.h"

#include <algorithm>
#include <array>

#include "base/big_endian.h"
#include "wire/internet_checksum.h"
#include "wire/ipv6.h"

namespace weft::network {
namespace {

constexpr std::uint16_t kEtherTypeArp = 0x0806;
constexpr std::size_t kArpBytes = 28, kArpTargetAt = 24, kArpSenderAt = 8, kArpAddressesAt = 18;
constexpr std::uint8_t kSolicitation = 135, kAdvertisement = 136;
constexpr std::size_t kSolicitationBytes = 24, kTargetAt = 8;
constexpr std::uint8_t kOnlyFromThisLink = 255;
constexpr std::uint32_t kSolicited = 1u << 30, kOverride = 1u << 29;
/// ICMPv6 header and target, then an option with the link address.
constexpr std::size_t kAdvertisementBytes = 32;

Gid gid_at(std::span<const std::byte> bytes, std::size_t at) {
  Gid gid;
  for (std::size_t i = 0; i < gid.raw.size(); ++i) {
    gid.raw[i] = std::to_integer<std::uint8_t>(bytes[at + i]);
  }
  return gid;
}

void put(std::span<std::byte> to, std::span<const std::uint8_t> bytes) {
  std::ranges::transform(bytes, to.begin(), [](std::uint8_t byte) { return std::byte{byte}; });
}

std::uint16_t icmp_checksum(std::span<const std::byte> message, const wire::Ipv6& header) {
  const std::uint64_t sum =
      wire::sum_of_pseudo_header(header.source, header.destination, wire::kIcmpv6, message.size()) +
      wire::sum_of(message);
  return static_cast<std::uint16_t>(~wire::folded(sum));
}

std::optional<Gid> target_of(std::span<const std::byte> frame, const wire::RawPacket& headers) {
  if (headers.type == kEtherTypeArp && headers.vlan_tag == 0) {
    const auto arp = frame.subspan(headers.network_at);
    if (arp.size() < kArpBytes) return std::nullopt;
    constexpr std::array<std::uint8_t, 8> kRequest{0, 1, 8, 0, 6, 4, 0, 1};
    for (std::size_t i = 0; i < kRequest.size(); ++i) {
      if (arp[i] != std::byte{kRequest[i]}) return std::nullopt;
    }
    const auto byte = [&](std::size_t i) {
      return std::to_integer<std::uint8_t>(arp[kArpTargetAt + i]);
    };
    return Gid::ipv4(byte(0), byte(1), byte(2), byte(3));
  }
  const bool solicits = headers.protocol == wire::kIcmpv6 && headers.version == 6 &&
                        headers.fault == wire::RawFault::kNone && headers.vlan_tag == 0 &&
                        headers.hop_limit == kOnlyFromThisLink && headers.upper_at != 0 &&
                        headers.upper_at + kSolicitationBytes <= headers.bytes;
  if (!solicits) return std::nullopt;
  const auto message = frame.subspan(headers.network_at + headers.upper_at);
  if (message[0] != std::byte{kSolicitation} || message[1] != std::byte{0}) return std::nullopt;
  return gid_at(message, kTargetAt);
}

std::vector<std::byte> advertisement(std::span<const std::byte> frame,
                                     const wire::RawPacket& headers, const Gid& address,
                                     const LinkAddress& owner) {
  constexpr std::size_t kPacketAt = wire::Ethernet::kSize;
  std::vector<std::byte> out(kPacketAt + wire::Ipv6::kSize + kAdvertisementBytes);
  const std::span all(out);
  std::copy_n(frame.begin() + 6, 6, all.begin());
  put(all.subspan(6), owner);
  base::store_be<std::uint16_t>(out.data() + 12, wire::kEtherTypeIpv6);
  wire::Ipv6 ip;
  ip.payload_length = kAdvertisementBytes;
  ip.next_header = wire::kIcmpv6;
  ip.hop_limit = kOnlyFromThisLink;
  ip.source = address;
  ip.destination = headers.source;
  // Who asks whether an address is free has none yet: all on the link are told.
  const bool has_source = headers.source != Gid{};
  if (!has_source) ip.destination = {{0xFF, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  if (!has_source) put(all, LinkAddress{0x33, 0x33, 0, 0, 0, 1});
  ip.emit(all.subspan(kPacketAt));
  const std::span message = all.subspan(kPacketAt + wire::Ipv6::kSize);
  message[0] = std::byte{kAdvertisement};
  base::store_be<std::uint32_t>(message.data() + 4, (has_source ? kSolicited : 0) | kOverride);
  put(message.subspan(kTargetAt), address.raw);
  message[24] = std::byte{2};  // the target's link address, of one unit of 8 bytes
  message[25] = std::byte{1};
  put(message.subspan(26), owner);
  wire::store_sum(message.data() + 2, icmp_checksum(message, ip));
  return out;
}

}  // namespace

std::optional<Gid> asked_for(std::span<const std::byte> frame, const wire::RawPacket& headers) {
  const auto target = target_of(frame, headers);
  return target && !target->is_multicast() ? target : std::nullopt;  // a group has no one owner
}

std::vector<std::byte> neighbour_answer(std::span<const std::byte> frame,
                                        const wire::RawPacket& headers, const Gid& address,
                                        const LinkAddress& owner) {
  if (headers.type != kEtherTypeArp) return advertisement(frame, headers, address, owner);
  std::vector<std::byte> out(
      frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(headers.network_at + kArpBytes));
  const std::span all(out);
  std::copy_n(frame.begin() + 6, 6, all.begin());
  put(all.subspan(6), owner);
  const auto asked = frame.subspan(headers.network_at);
  const auto arp = all.subspan(headers.network_at);
  arp[7] = std::byte{2};  // a reply
  std::copy_n(asked.begin() + kArpSenderAt, 10, arp.begin() + kArpAddressesAt);
  put(arp.subspan(kArpSenderAt), owner);
  std::copy_n(asked.begin() + kArpTargetAt, 4, arp.begin() + 14);
  return out;
}

}  // namespace weft::network

#include "cm/service_id.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/big_endian.h"

namespace weft::cm {
namespace {

constexpr std::uint8_t kIpv4 = 4, kIpv6 = 6;
constexpr std::size_t kSource = 4, kDestination = 20;

Gid load_address(const std::byte* at, bool ipv6) {
  Gid gid;
  std::memcpy(gid.raw.data(), at, gid.raw.size());
  // The twelve bytes before an IPv4 address mean nothing.
  if (!ipv6) gid = Gid::ipv4(gid.raw[12], gid.raw[13], gid.raw[14], gid.raw[15]);
  return gid;
}

void store_address(std::byte* at, const Gid& gid, bool ipv6) {
  std::memcpy(at, gid.raw.data(), gid.raw.size());
  if (!ipv6) std::fill(at, at + 12, std::byte{0});
}

}  // namespace

std::optional<IpHeader> parse_ip_header(std::span<const std::byte> private_data) {
  if (private_data.size() < kIpHeaderBytes || private_data[0] != std::byte{0}) return {};
  const auto version = std::to_integer<std::uint8_t>(private_data[1] >> 4);
  if (version != kIpv4 && version != kIpv6) return {};
  IpHeader header;
  header.ipv6 = version == kIpv6;
  header.source_port = Port(base::load_be<std::uint16_t>(&private_data[2]));
  header.source = load_address(&private_data[kSource], header.ipv6);
  header.destination = load_address(&private_data[kDestination], header.ipv6);
  return header;
}

void emit_ip_header(const IpHeader& header, std::span<std::byte> private_data) {
  WEFT_ASSERT(private_data.size() >= kIpHeaderBytes);
  private_data[0] = std::byte{0};
  private_data[1] = static_cast<std::byte>((header.ipv6 ? kIpv6 : kIpv4) << 4);
  base::store_be(&private_data[2], header.source_port.value);
  store_address(&private_data[kSource], header.source, header.ipv6);
  store_address(&private_data[kDestination], header.destination, header.ipv6);
}

}  // namespace weft::cm

#include "files/gid_table.h"

#include <algorithm>
#include <array>

namespace weft::files {
namespace {

constexpr std::uint32_t kRoceEntries = 4;
constexpr std::uint8_t kAddressAsRoceV2 = 3;
constexpr std::size_t kHalf = 8;  // of a GID: the prefix, or the interface identifier

/// The interface identifier of an IPv4 address: these four bytes, then the address.
constexpr std::array<std::uint8_t, 4> kIpv4Identifier{0, 0, 0x5E, 0xFE};
/// Set by others for addresses that they know to be the only one in the world.
constexpr std::uint8_t kUniversal = 0x02;

bool names_ipv4(const Gid& link_local) {
  std::array<std::uint8_t, 4> start;
  std::copy_n(link_local.raw.begin() + kHalf, start.size(), start.begin());
  start[0] &= static_cast<std::uint8_t>(~kUniversal);
  return start == kIpv4Identifier;
}

}  // namespace

std::uint32_t gid_count(const ShownDevice& device) {
  return device.link_layer == LinkLayer::kInfiniBand ? 1 : kRoceEntries;
}

std::optional<GidEntry> gid_entry(const ShownDevice& device, std::uint32_t index) {
  if (index >= gid_count(device)) return {};
  if (device.link_layer == LinkLayer::kInfiniBand) {
    return GidEntry{device.address, GidType::kInfiniBand};
  }
  const bool is_address = index == 0 || index == kAddressAsRoceV2;
  return GidEntry{is_address ? device.address : link_local_gid(device.address),
                  index % 2 == 0 ? GidType::kRoceV1 : GidType::kRoceV2};
}

std::uint8_t address_gid_index(const ShownDevice& device) {
  return device.link_layer == LinkLayer::kInfiniBand ? 0 : kAddressAsRoceV2;
}

bool is_link_local(const Gid& gid) { return gid.raw[0] == 0xFE && gid.raw[1] >> 6 == 2; }

Gid link_local_gid(const Gid& address) {
  Gid gid;
  gid.raw[0] = 0xFE;
  gid.raw[1] = 0x80;
  std::copy(address.raw.begin() + kHalf, address.raw.end(), gid.raw.begin() + kHalf);
  if (address.is_ipv4()) {
    std::copy(kIpv4Identifier.begin(), kIpv4Identifier.end(), gid.raw.begin() + kHalf);
  }
  return gid;
}

std::optional<Gid> address_of_gid(const Gid& gid, const Gid& own) {
  if (!is_link_local(gid)) return gid;
  if (names_ipv4(gid)) {
    const Gid address = Gid::ipv4(gid.raw[12], gid.raw[13], gid.raw[14], gid.raw[15]);
    constexpr Gid kNobody = Gid::ipv4(0, 0, 0, 0), kEverybody = Gid::ipv4(255, 255, 255, 255);
    if (address.is_multicast() || address == kNobody || address == kEverybody) return {};
    return address;
  }
  if (own.is_ipv4()) return {};
  Gid address = own;
  std::copy(gid.raw.begin() + kHalf, gid.raw.end(), address.raw.begin() + kHalf);
  // Below the prefix of ::1 there is more than IPv6 addresses.
  if (address == Gid{} || address.is_ipv4()) return {};
  return address;
}

}  // namespace weft::files

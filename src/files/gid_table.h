// The GID table of a shown device's port. On Ethernet it has the entries that network cards have
// for one IP address, each as RoCE v1 and v2; weft carries all of them alike, in RoCEv2 frames from
// and to the device's address:
//
//     0  the address (IPv4: ::ffff:a.b.c.d)   RoCE v1   what most programs take when nobody says
//     1  the link-local GID                   RoCE v2
//     2  the link-local GID                   RoCE v1
//     3  the address                          RoCE v2   what the connection manager names
//
// InfiniBand has the first alone. A link-local GID follows from the address and leads back to it,
// in any process and on any host of the link. Plain functions, any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "files/device_list.h"
#include "weft/types.h"

namespace weft::files {

enum class GidType : std::uint8_t { kInfiniBand, kRoceV1, kRoceV2 };

struct GidEntry {
  Gid gid;
  GidType type;
  friend bool operator==(const GidEntry&, const GidEntry&) = default;
};

/// Indices of the table; most of them are empty.
inline constexpr std::uint32_t kGidTableLength = 8;

/// How many are not empty: they come first.
std::uint32_t gid_count(const ShownDevice& device);
/// nullopt: the index is empty, or beyond the table.
std::optional<GidEntry> gid_entry(const ShownDevice& device, std::uint32_t index);
/// The entry of the address itself with the type of the frames that are sent.
std::uint8_t address_gid_index(const ShownDevice& device);

/// fe80::/10.
bool is_link_local(const Gid& gid);
/// IPv4: fe80::5efe:a.b.c.d, the form of RFC 5214. IPv6: fe80:: and the address's lower 64 bits.
Gid link_local_gid(const Gid& address);
/// The address that a GID names to a device whose own address is `own`: what link_local_gid() was
/// made of, if both are IPv4 or in one /64; any other GID names itself. nullopt: a link-local GID
/// that names no single host.
std::optional<Gid> address_of_gid(const Gid& gid, const Gid& own);

}  // namespace weft::files

// The vocabulary of weft: strong types for the numbers that RDMA passes around. Plain values,
// freely copied, usable from any thread. An interface never takes a bare integer where one of
// these names the thing.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace weft {

/// A number with a name: two strong types never mix, and nothing converts to one by itself.
template <class Tag, class Rep>
struct Strong {
  using rep = Rep;
  Rep value{};

  constexpr Strong() = default;
  constexpr explicit Strong(Rep v) : value(v) {}
  friend constexpr auto operator<=>(const Strong&, const Strong&) = default;
};

/// Queue-pair number, 24 bits.
using Qpn = Strong<struct QpnTag, std::uint32_t>;
/// Key that the owner of memory uses in its own gather and scatter lists.
using LocalKey = Strong<struct LocalKeyTag, std::uint32_t>;
/// Key that a peer presents to reach memory: permuted slot (24 bits) and tag (8 bits).
using RemoteKey = Strong<struct RemoteKeyTag, std::uint32_t>;
/// Guards a datagram queue pair: a datagram with another one is dropped.
using QKey = Strong<struct QKeyTag, std::uint32_t>;
/// Number of a shared receive queue, by which extended connections choose one of the peer's.
using SrqNumber = Strong<struct SrqNumberTag, std::uint32_t>;
/// Partition key.
using PKey = Strong<struct PKeyTag, std::uint16_t>;
/// 24-bit end-to-end context number of the reliable datagram service.
using EecNumber = Strong<struct EecTag, std::uint32_t>;
/// Local identifier: address inside a subnet.
using Lid = Strong<struct LidTag, std::uint16_t>;

inline constexpr std::uint32_t kMask24 = 0xFF'FFFF;
inline constexpr PKey kDefaultPKey{0xFFFF};
/// Where datagrams for a multicast group go: to every queue pair that is attached to it.
inline constexpr Qpn kMulticastQpn{kMask24};

/// Packet sequence number: 24 bits, compared in a signed window of 2^23.
class Psn {
 public:
  constexpr Psn() = default;
  constexpr explicit Psn(std::uint32_t v) : value_(v & kMask24) {}

  constexpr std::uint32_t value() const { return value_; }
  constexpr Psn operator+(std::uint32_t n) const { return Psn(value_ + n); }
  constexpr Psn operator-(std::uint32_t n) const { return Psn(value_ - n); }
  constexpr Psn& operator+=(std::uint32_t n) { return *this = *this + n; }
  constexpr Psn& operator++() { return *this += 1; }
  friend constexpr bool operator==(Psn, Psn) = default;

  /// How far this one lies after `from`, going up and wrapping: 0 to 2^24 - 1.
  constexpr std::uint32_t distance_from(Psn from) const { return (value_ - from.value_) & kMask24; }
  /// Signed distance in the window: negative when this one lies before `other`.
  constexpr std::int32_t compare(Psn other) const {
    return static_cast<std::int32_t>((value_ - other.value_) << 8) >> 8;
  }
  constexpr bool before(Psn other) const { return compare(other) < 0; }

 private:
  std::uint32_t value_ = 0;
};

/// Path MTU: payload bytes of a full frame.
enum class Mtu : std::uint16_t { k256 = 256, k512 = 512, k1024 = 1024, k2048 = 2048, k4096 = 4096 };
constexpr std::uint32_t bytes(Mtu mtu) { return static_cast<std::uint32_t>(mtu); }

/// A 128-bit port address: an IPv6 address, or an IPv4 one in its mapped form (RFC 4291).
struct Gid {
  std::array<std::uint8_t, 16> raw{};

  constexpr bool is_ipv4() const {
    constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    return __builtin_memcmp(raw.data(), kMapped.data(), kMapped.size()) == 0;
  }
  /// An address of a group: ff00::/8, or 224.0.0.0/4.
  constexpr bool is_multicast() const { return is_ipv4() ? raw[12] >> 4 == 0xE : raw[0] == 0xFF; }
  static constexpr Gid ipv4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) {
    Gid gid;
    gid.raw[10] = gid.raw[11] = 0xFF;
    gid.raw[12] = a, gid.raw[13] = b, gid.raw[14] = c, gid.raw[15] = d;
    return gid;
  }
  friend constexpr auto operator<=>(const Gid&, const Gid&) = default;
  /// Asked for each frame: of a size that compilers know, so that they call nothing.
  friend constexpr bool operator==(const Gid& a, const Gid& b) {
    return __builtin_memcmp(a.raw.data(), b.raw.data(), sizeof a.raw) == 0;
  }
};

/// Nanoseconds of the driver's clock: steady time in a process, virtual time in a simulation.
using Nanoseconds = std::uint64_t;
inline constexpr Nanoseconds kNever = ~Nanoseconds{0};

}  // namespace weft

template <class Tag, class Rep>
struct std::hash<weft::Strong<Tag, Rep>> {
  std::size_t operator()(const weft::Strong<Tag, Rep>& s) const noexcept {
    return std::hash<Rep>{}(s.value);
  }
};

template <>
struct std::hash<weft::Gid> {
  std::size_t operator()(const weft::Gid& gid) const noexcept {
    std::size_t h = 0xcbf29ce484222325;
    for (auto byte : gid.raw) h = (h ^ byte) * 0x100000001b3;
    return h;
  }
};

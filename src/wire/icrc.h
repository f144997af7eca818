// The invariant CRC at the end of every RoCE v2 packet: CRC-32 over what does not change on the
// way. An Icrc is a running value: start it from the IP and UDP headers, add the block that begins
// with the BTH, then whatever follows, and compare or store it.
//
//   8 bytes of ones | IP header | UDP header | BTH ... payload, pad | ICRC, little-endian
//
// Taken as ones: IPv4 type of service, time to live, checksum; IPv6 traffic class, flow label, hop
// limit; UDP checksum; BTH byte 4. IPv4's identification and flags are covered. Plain values, any
// thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/bth.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/udp.h"

namespace weft::wire {

inline constexpr std::size_t kIcrcSize = 4;
/// Of the BTH, taken as kOnes.
inline constexpr std::size_t kUncheckedByte = 4;
inline constexpr std::byte kOnes{0xFF};

class Icrc {
 public:
  static Icrc over_ipv4(std::span<const std::byte, Ipv4::kSize> ip,
                        std::span<const std::byte, Udp::kSize> udp);
  static Icrc over_ipv6(std::span<const std::byte, Ipv6::kSize> ip,
                        std::span<const std::byte, Udp::kSize> udp);

  /// The block right after the UDP header; it begins with a whole BTH.
  Icrc& add_first(std::span<const std::byte> block);
  /// Everything after that, in pieces of any size, empty ones too.
  Icrc& add(std::span<const std::byte> piece);

  /// The block right after the UDP header as a sender makes it: headers that are written at `at`
  /// already, and what is copied behind them meanwhile. Reading that may fault: the caller guards
  /// it, and after a fault neither the bytes at `at` nor the Icrc are of use.
  Icrc& add_first_copying(std::byte* at, std::size_t headers, std::span<const std::byte> rest);
  /// The same in two passes, for processors that cannot do it in one.
  Icrc& add_first_copying_before(std::byte* at, std::size_t headers,
                                 std::span<const std::byte> rest);
  /// Copies and adds one more piece; guarded likewise.
  Icrc& add_copying(std::byte* to, std::span<const std::byte> piece);

  std::uint32_t value() const { return crc_; }
  void store(std::span<std::byte, kIcrcSize> out) const {
    for (std::size_t i = 0; i < kIcrcSize; ++i) out[i] = static_cast<std::byte>(crc_ >> (8 * i));
  }
  bool matches(std::span<const std::byte, kIcrcSize> stored) const {
    return remainder(stored) == 0;
  }
  /// What is left over between this one and another; 0 when they match.
  std::uint32_t remainder(std::span<const std::byte, kIcrcSize> stored) const {
    std::uint32_t theirs = 0;
    for (std::size_t i = 0; i < kIcrcSize; ++i) {
      theirs |= std::to_integer<std::uint32_t>(stored[i]) << (8 * i);
    }
    return crc_ ^ theirs;
  }

 private:
  friend class IcrcPrefix;
  explicit Icrc(std::uint32_t crc) : crc_(crc) {}

  std::uint32_t crc_;
};

/// The headers of one flow, computed once. Between packets of a flow only lengths and IPv4's
/// identification differ, and a CRC is linear: what they add is looked up, six table reads instead
/// of a pass over the headers. Immutable after construction, so any thread may call start().
class IcrcPrefix {
 public:
  /// The headers of any packet of the flow; their lengths and identification do not matter.
  IcrcPrefix(const Ipv4& ip, const Udp& udp);
  IcrcPrefix(const Ipv6& ip, const Udp& udp);

  /// `udp_length` counts from the UDP header to the ICRC's end; IPv6 has no identification.
  Icrc start(std::uint16_t udp_length, std::uint16_t identification = 0) const {
    const auto ip_length = static_cast<std::uint16_t>(udp_length + ip_length_extra_);
    const Tables& t = *tables_;
    return Icrc(base_ ^ t.ip_length[0][ip_length >> 8] ^ t.ip_length[1][ip_length & 0xFF] ^
                t.identification[0][identification >> 8] ^
                t.identification[1][identification & 0xFF] ^ t.udp_length[0][udp_length >> 8] ^
                t.udp_length[1][udp_length & 0xFF]);
  }

 private:
  /// What each value of each byte of a 16-bit field adds to the CRC at the end of the headers.
  using Field = std::array<std::array<std::uint32_t, 256>, 2>;
  struct Tables {
    Field ip_length{}, identification{}, udp_length{};
  };
  template <class Ip>
  static Tables build_tables();
  template <class Ip>
  static const Tables& tables();

  std::uint32_t base_;  ///< with all three fields 0
  std::uint16_t ip_length_extra_;
  const Tables* tables_;
};

}  // namespace weft::wire

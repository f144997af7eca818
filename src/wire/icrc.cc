#include "wire/icrc.h"

#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/big_endian.h"
#include "wire/crc32.h"
#include "wire/crc32_copy.h"

namespace weft::wire {
namespace {

constexpr std::size_t kLeadBytes = 8;

/// False until it is initialized, which does no harm.
const bool copies_in_one_pass = has_crc32_copy();

std::uint32_t little_endian(const std::byte* at) {
  return __builtin_bswap32(base::load_be<std::uint32_t>(at));
}

#if defined(__SANITIZE_THREAD__)
/// The program may write what a peer reads: an answer that is repeated comes after the read is
/// done. Both know it, the sanitizer does not.
[[gnu::no_sanitize("thread")]] void copy_bytes(std::byte* to, std::span<const std::byte> from) {
  const volatile std::byte* const source = from.data();
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = source[i];
}
#else
/// Where a whole address space is registered a peer may name address 0: whoever copies is guarded
/// against the fault, and the sanitizer need not see it first.
[[gnu::no_sanitize("nonnull-attribute")]] void copy_bytes(std::byte* to,
                                                          std::span<const std::byte> from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}
#endif

/// The leading ones, then IP and UDP header as the ICRC sees them.
template <std::size_t IpSize>
struct MaskedHeaders {
  static constexpr std::size_t kIpAt = kLeadBytes;
  static constexpr std::size_t kUdpAt = kIpAt + IpSize;
  static constexpr std::size_t kSize = kUdpAt + Udp::kSize;
  std::array<std::byte, kSize> bytes;

  MaskedHeaders(std::span<const std::byte, IpSize> ip, std::span<const std::byte, Udp::kSize> udp) {
    std::memset(bytes.data(), 0xFF, kLeadBytes);
    std::memcpy(bytes.data() + kIpAt, ip.data(), IpSize);
    std::memcpy(bytes.data() + kUdpAt, udp.data(), Udp::kSize);
    std::byte* masked = bytes.data() + kIpAt;
    if constexpr (IpSize == Ipv4::kSize) {
      masked[1] = kOnes;                // type of service
      masked[8] = kOnes;                // time to live
      masked[10] = masked[11] = kOnes;  // checksum
    } else {
      masked[0] |= std::byte{0x0F};  // traffic class, upper half
      masked[1] = masked[2] = masked[3] = kOnes;
      masked[7] = kOnes;  // hop limit
    }
    bytes[kUdpAt + 6] = bytes[kUdpAt + 7] = kOnes;  // checksum
  }
};

/// Where the fields that IcrcPrefix adds later lie.
template <class Ip>
constexpr std::size_t kIpLengthAt = kLeadBytes + (Ip::kSize == Ipv4::kSize ? 2 : 4);
constexpr std::size_t kIdentificationAt = kLeadBytes + 4;
template <class Ip>
constexpr std::size_t kUdpLengthAt = kLeadBytes + Ip::kSize + 4;

template <class Ip>
MaskedHeaders<Ip::kSize> masked_headers(const Ip& ip, const Udp& udp) {
  std::array<std::byte, Ip::kSize> ip_bytes;
  std::array<std::byte, Udp::kSize> udp_bytes;
  ip.write(ip_bytes);
  udp.write(udp_bytes);
  return MaskedHeaders<Ip::kSize>(ip_bytes, udp_bytes);
}

}  // namespace

Icrc Icrc::over_ipv4(std::span<const std::byte, Ipv4::kSize> ip,
                     std::span<const std::byte, Udp::kSize> udp) {
  return Icrc(crc32(0, MaskedHeaders<Ipv4::kSize>(ip, udp).bytes));
}

Icrc Icrc::over_ipv6(std::span<const std::byte, Ipv6::kSize> ip,
                     std::span<const std::byte, Udp::kSize> udp) {
  return Icrc(crc32(0, MaskedHeaders<Ipv6::kSize>(ip, udp).bytes));
}

Icrc& Icrc::add_first(std::span<const std::byte> block) {
  WEFT_ASSERT(block.size() >= Bth::kSize);
  // The longest headers fit in one small copy, so that senders, whose first block is just the
  // headers, make a single call.
  std::array<std::byte, kMaxHeaderBytes> head;
  const std::size_t copied = block.size() <= head.size() ? block.size() : Bth::kSize;
  std::memcpy(head.data(), block.data(), copied);
  head[kUncheckedByte] = kOnes;
  crc_ = crc32(crc_, std::span(head).first(copied));
  return add(block.subspan(copied));
}

Icrc& Icrc::add(std::span<const std::byte> piece) {
  crc_ = crc32(crc_, piece);
  return *this;
}

Icrc& Icrc::add_first_copying(std::byte* at, std::size_t headers, std::span<const std::byte> rest) {
  if (!copies_in_one_pass || rest.size() < kLeastCrc32Copy) {
    return add_first_copying_before(at, headers, rest);
  }
  if (headers != Bth::kSize) return add_first({at, headers}).add_copying(at + headers, rest);
  static_assert(kUncheckedByte == 4);
  crc_ = crc32_copy(crc_, {little_endian(at), little_endian(at + 4) | 0xFF, little_endian(at + 8)},
                    at + headers, rest);
  return *this;
}

Icrc& Icrc::add_first_copying_before(std::byte* at, std::size_t headers,
                                     std::span<const std::byte> rest) {
  copy_bytes(at + headers, rest);
  const std::byte unchecked = std::exchange(at[kUncheckedByte], kOnes);
  add({at, headers + rest.size()});
  at[kUncheckedByte] = unchecked;
  return *this;
}

Icrc& Icrc::add_copying(std::byte* to, std::span<const std::byte> piece) {
  if (copies_in_one_pass && piece.size() >= kLeastCrc32Copy) {
    crc_ = crc32_copy(crc_, to, piece);
    return *this;
  }
  copy_bytes(to, piece);
  return add({to, piece.size()});
}

template <class Ip>
IcrcPrefix::Tables IcrcPrefix::build_tables() {
  auto headers = masked_headers(Ip{}, Udp{});
  const std::uint32_t none = crc32(0, headers.bytes);
  auto fill = [&](Field& field, std::size_t at) {
    for (std::size_t byte = 0; byte < 2; ++byte) {
      const std::byte saved = headers.bytes[at + byte];
      for (unsigned value = 0; value < 256; ++value) {
        headers.bytes[at + byte] = saved ^ static_cast<std::byte>(value);
        field[byte][value] = crc32(0, headers.bytes) ^ none;
      }
      headers.bytes[at + byte] = saved;
    }
  };
  Tables tables;
  fill(tables.ip_length, kIpLengthAt<Ip>);
  // IPv6 has no identification: its table stays 0 and adds nothing.
  if constexpr (Ip::kSize == Ipv4::kSize) fill(tables.identification, kIdentificationAt);
  fill(tables.udp_length, kUdpLengthAt<Ip>);
  return tables;
}

template <class Ip>
const IcrcPrefix::Tables& IcrcPrefix::tables() {
  static const Tables tables = build_tables<Ip>();
  return tables;
}

IcrcPrefix::IcrcPrefix(const Ipv4& ip, const Udp& udp)
    : ip_length_extra_(Ipv4::kSize), tables_(&tables<Ipv4>()) {
  Ipv4 constant = ip;
  constant.total_length = constant.identification = 0;
  Udp ports = udp;
  ports.length = 0;
  base_ = crc32(0, masked_headers(constant, ports).bytes);
}

IcrcPrefix::IcrcPrefix(const Ipv6& ip, const Udp& udp)
    : ip_length_extra_(0), tables_(&tables<Ipv6>()) {
  Ipv6 constant = ip;
  constant.payload_length = 0;
  Udp ports = udp;
  ports.length = 0;
  base_ = crc32(0, masked_headers(constant, ports).bytes);
}

}  // namespace weft::wire

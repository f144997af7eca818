#include "wire/segments.h"

#include <algorithm>

#include "base/big_endian.h"
#include "wire/internet_checksum.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/udp.h"

namespace weft::wire {
namespace {

constexpr std::size_t kLeastTcpBytes = 20;
constexpr unsigned kFinAndPush = 0x09, kWindowReduced = 0x80;

/// 0: there is no whole header.
std::size_t upper_header_bytes(std::span<const std::byte> upper, std::uint8_t protocol) {
  if (protocol == kIpProtocolUdp) return upper.size() < Udp::kSize ? 0 : Udp::kSize;
  if (protocol != kIpProtocolTcp || upper.size() < kLeastTcpBytes) return 0;
  const std::size_t bytes = std::to_integer<std::size_t>(upper[12] >> 4) * 4;
  return bytes < kLeastTcpBytes || bytes > upper.size() ? 0 : bytes;
}

void set_ip_lengths(std::span<std::byte> packet, const RawPacket& headers, std::size_t number) {
  if (headers.version == 6) {
    base::store_be<std::uint16_t>(packet.data() + 4,
                                  static_cast<std::uint16_t>(packet.size() - Ipv6::kSize));
    return;
  }
  base::store_be<std::uint16_t>(packet.data() + 2, static_cast<std::uint16_t>(packet.size()));
  const auto identification = base::load_be<std::uint16_t>(packet.data() + 4);
  base::store_be<std::uint16_t>(packet.data() + 4,
                                static_cast<std::uint16_t>(identification + number));
  store_sum(packet.data() + 10, 0);
  const auto sum = folded(sum_of(packet.first(headers.upper_at)));
  store_sum(packet.data() + 10, static_cast<std::uint16_t>(~sum));
}

void set_upper(std::span<std::byte> upper, std::uint8_t protocol, std::size_t payload_at,
               bool first, bool last) {
  if (protocol == kIpProtocolUdp) {
    base::store_be<std::uint16_t>(upper.data() + 4, static_cast<std::uint16_t>(upper.size()));
    return;
  }
  const auto sequence = base::load_be<std::uint32_t>(upper.data() + 4);
  base::store_be<std::uint32_t>(upper.data() + 4,
                                sequence + static_cast<std::uint32_t>(payload_at));
  unsigned dropped = 0;
  if (!last) dropped |= kFinAndPush;
  if (!first) dropped |= kWindowReduced;
  upper[13] &= ~static_cast<std::byte>(dropped);
}

}  // namespace

bool for_each_segment(std::span<const std::byte> frame, const RawPacket& headers,
                      std::size_t part_bytes, std::vector<std::byte>& room,
                      const std::function<void(std::span<const std::byte>)>& visit) {
  if (headers.fault != RawFault::kNone || headers.is_fragment || headers.upper_at == 0 ||
      part_bytes == 0) {
    return false;
  }
  const auto packet = frame.subspan(headers.network_at, headers.bytes);
  const std::size_t upper_bytes =
      upper_header_bytes(packet.subspan(headers.upper_at), headers.protocol);
  if (upper_bytes == 0) return false;
  const std::size_t before = headers.network_at + headers.upper_at + upper_bytes;
  const auto payload = frame.subspan(before, headers.network_at + headers.bytes - before);
  std::size_t number = 0;
  for (std::size_t at = 0; at < payload.size() || at == 0; at += part_bytes, ++number) {
    const std::size_t n = std::min(part_bytes, payload.size() - at);
    room.assign(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(before));
    const auto part = payload.subspan(at, n);
    room.insert(room.end(), part.begin(), part.end());
    const auto cut = std::span(room).subspan(headers.network_at);
    set_ip_lengths(cut, headers, number);
    set_upper(cut.subspan(headers.upper_at), headers.protocol, at, at == 0,
              at + n == payload.size());
    visit(room);
  }
  return true;
}

}  // namespace weft::wire

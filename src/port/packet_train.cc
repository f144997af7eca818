#include "port/packet_train.h"

#include <algorithm>
#include <cstring>

#include "base/big_endian.h"
#include "wire/ethernet.h"
#include "wire/internet_checksum.h"
#include "wire/ipv6.h"
#include "wire/udp.h"

namespace weft::port {
namespace {

constexpr std::size_t kIpAt = wire::Ethernet::kSize;
constexpr std::size_t kUdpAt = kIpAt + wire::Ipv6::kSize;
constexpr std::size_t kChecksumAt = kUdpAt + 6;
constexpr std::size_t kPayloadAt = kUdpAt + wire::Udp::kSize;
constexpr std::size_t kMostPayload = 65'000;
constexpr std::uint8_t kNeedsChecksum = 1, kCutUdp = 5;

bool leads_a_train(RawBytes frame) {
  if (frame.size() <= kPayloadAt) return false;
  const std::byte* const at = frame.data();
  const std::size_t upper_bytes = frame.size() - kUdpAt;
  return base::load_be<std::uint16_t>(at + 12) == wire::kEtherTypeIpv6 &&
         at[kIpAt] >> 4 == std::byte{6} && at[kIpAt + 6] == std::byte{wire::kIpProtocolUdp} &&
         base::load_be<std::uint16_t>(at + kIpAt + 4) == upper_bytes &&
         base::load_be<std::uint16_t>(at + kUdpAt + 4) == upper_bytes;
}

/// Addresses and all of the upper layer; the protocol and the length are those of the leader.
std::uint64_t sum_of_frame(RawBytes frame) {
  return wire::sum_of(frame.subspan(kIpAt + 8)) + wire::sum_of_number(wire::kIpProtocolUdp) +
         wire::sum_of_number(static_cast<std::uint32_t>(frame.size() - kUdpAt));
}

bool has_right_checksum(RawBytes frame) {
  const bool has_one = frame[kChecksumAt] != std::byte{0} || frame[kChecksumAt + 1] != std::byte{0};
  return has_one && wire::folded(sum_of_frame(frame)) == 0xFFFF;
}

iovec part(const void* from, std::size_t bytes) {
  return {const_cast<void*>(from), bytes};  // it is only read
}

}  // namespace

std::size_t PacketTrain::length(std::span<const RawBytes> frames) {
  if (frames.size() < 2 || frames[1].size() != frames[0].size() || !leads_a_train(frames[0]) ||
      !has_right_checksum(frames[0])) {
    return 1;
  }
  const RawBytes first = frames[0];
  const std::size_t most =
      std::min({frames.size(), kMost, kMostPayload / (first.size() - kPayloadAt)});
  std::size_t n = 1;
  while (n < most && frames[n].size() == first.size() &&
         std::memcmp(frames[n].data(), first.data(), kChecksumAt) == 0 &&
         has_right_checksum(frames[n])) {
    ++n;
  }
  return std::max<std::size_t>(n, 1);
}

PacketTrain::PacketTrain(std::span<const RawBytes> frames) {
  static_assert(kHeaders == kPayloadAt);
  const std::size_t payload = frames[0].size() - kPayloadAt;
  const std::size_t upper_bytes = wire::Udp::kSize + payload * frames.size();
  offload_ = {.flags = kNeedsChecksum,
              .kind = kCutUdp,
              .header_bytes = kHeaders,
              .part_bytes = static_cast<std::uint16_t>(payload),
              .checksum_from = kUdpAt,
              .checksum_at = kChecksumAt - kUdpAt};
  std::copy_n(frames[0].begin(), kHeaders, headers_.begin());
  base::store_be<std::uint16_t>(headers_.data() + kIpAt + 4,
                                static_cast<std::uint16_t>(upper_bytes));
  base::store_be<std::uint16_t>(headers_.data() + kUdpAt + 4,
                                static_cast<std::uint16_t>(upper_bytes));
  // The kernel adds the rest: this is the sum of what stands in no header.
  const std::uint64_t sum = wire::sum_of(std::span(headers_).subspan(kIpAt + 8, 32)) +
                            wire::sum_of_number(wire::kIpProtocolUdp) +
                            wire::sum_of_number(static_cast<std::uint32_t>(upper_bytes));
  wire::store_sum(headers_.data() + kChecksumAt, wire::folded(sum));
  pieces_[0] = part(&offload_, sizeof offload_);
  pieces_[1] = part(headers_.data(), headers_.size());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    pieces_[i + 2] = part(frames[i].data() + kPayloadAt, payload);
  }
  message_.msg_iov = pieces_.data();
  message_.msg_iovlen = frames.size() + 2;
}

}  // namespace weft::port

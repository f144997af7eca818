// The message by which two endnodes make an end-to-end context of the reliable datagram service,
// and take it down. InfiniBand leaves that to a connection manager; weft's ends carry it in an RD
// SEND ONLY frame to context 0, whose DETH names the context of the sender.
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |    version    |     kind      |     flags     |     reads     |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |    reserved   |      sequence number of the first request     |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |           path MTU            |    timeout    |  retry count  |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |    reserved   |     context of the receiver (0: not known)    |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |                     name of the context:                      |
//   |                 drawn at random by who asks                   |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// A plain value, any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tl/expected.hpp>

#include "base/big_endian.h"
#include "weft/types.h"
#include "wire/parse_error.h"

namespace weft::wire {

enum class RdSetupKind : std::uint8_t {
  kRequest = 1,   ///< make a context
  kReply = 2,     ///< it is made, with these terms
  kReject = 3,    ///< it is not, and will not be now
  kDown = 4,      ///< it is idle: take it down
  kDownReply = 5  ///< it is gone
};

/// Known to everybody: it keeps nobody out.
inline constexpr QKey kRdSetupQKey{0x8001'5244};

struct RdSetup {
  static constexpr std::size_t kSize = 24;
  static constexpr std::uint8_t kVersion = 1;
  static constexpr std::uint8_t kWindowed = 1;  ///< flags: many messages may be outstanding

  RdSetupKind kind = RdSetupKind::kRequest;
  bool windowed = false;
  std::uint8_t reads = 1;  ///< reads and atomics that the sender serves at once
  Psn first_psn;
  Mtu mtu = Mtu::k256;
  std::uint8_t timeout = 0;  ///< as a queue pair's attributes
  std::uint8_t retry_count = 0;
  EecNumber receiver;
  std::uint64_t name = 0;

  static tl::expected<RdSetup, ParseError> parse(std::span<const std::byte> in) {
    if (in.size() < kSize) return tl::unexpected(ParseError::kTruncated);
    if (in.size() != kSize) return tl::unexpected(ParseError::kBadPayloadLength);
    const std::byte* p = in.data();
    const auto kind = std::to_integer<std::uint8_t>(p[1]);
    const auto mtu = base::load_be<std::uint16_t>(p + 8);
    const bool known_mtu = mtu >= 256 && mtu <= 4096 && (mtu & (mtu - 1)) == 0;
    if (std::to_integer<std::uint8_t>(p[0]) != kVersion || kind < 1 || kind > 5 || !known_mtu) {
      return tl::unexpected(ParseError::kBadSetup);
    }
    RdSetup setup;
    setup.kind = RdSetupKind{kind};
    setup.windowed = (std::to_integer<std::uint8_t>(p[2]) & kWindowed) != 0;
    setup.reads = std::max<std::uint8_t>(1, std::to_integer<std::uint8_t>(p[3]));
    setup.first_psn = Psn(base::load_be24(p + 5));
    setup.mtu = Mtu{mtu};
    setup.timeout = std::to_integer<std::uint8_t>(p[10]) & 31;
    setup.retry_count = std::to_integer<std::uint8_t>(p[11]) & 7;
    setup.receiver = EecNumber(base::load_be24(p + 13));
    setup.name = base::load_be<std::uint64_t>(p + 16);
    return setup;
  }

  std::array<std::byte, kSize> bytes() const {
    std::array<std::byte, kSize> out{};
    std::byte* p = out.data();
    p[0] = std::byte{kVersion};
    p[1] = static_cast<std::byte>(kind);
    p[2] = windowed ? std::byte{kWindowed} : std::byte{0};
    p[3] = static_cast<std::byte>(reads);
    base::store_be24(p + 5, first_psn.value());
    base::store_be(p + 8, static_cast<std::uint16_t>(mtu));
    p[10] = static_cast<std::byte>(timeout);
    p[11] = static_cast<std::byte>(retry_count);
    base::store_be24(p + 13, receiver.value);
    base::store_be(p + 16, name);
    return out;
  }
  friend bool operator==(const RdSetup&, const RdSetup&) = default;
};

}  // namespace weft::wire

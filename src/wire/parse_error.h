// Why bytes from the wire were refused. Each kind becomes a counter, so the list is dense and ends
// with kCount. Plain values, any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft::wire {

enum class ParseError : std::uint8_t {
  kTruncated,            ///< fewer bytes than the headers or the length fields ask for
  kUnknownOpcode,        ///< BTH opcode that no service defines
  kBadTransportVersion,  ///< BTH transport version other than 0
  kUnaligned,            ///< BTH to end of pad is not a multiple of 4 bytes
  kBadPad,               ///< pad count larger than the payload that should hold the pad
  kBadPayloadLength,     ///< payload on an opcode that has none, or not the fixed size that it has
  kBadIpVersion,         ///< neither IPv4 nor IPv6, or not the one that was asked for
  kIpOptions,            ///< IPv4 options: RoCE has none
  kIpFragment,           ///< a fragment: RoCE datagrams are never fragmented
  kBadIpLength,          ///< IP length field too small for what must follow
  kNotUdp,               ///< another protocol than UDP
  kWrongPort,            ///< UDP destination port other than 4791
  kBadUdpLength,         ///< UDP length contradicts the IP length
  kBadIcrc,              ///< the invariant CRC does not match
  kBadSetup,             ///< a context's setup message of another version, kind or MTU
  kCount
};

constexpr std::string_view to_string(ParseError error) {
  switch (error) {
    case ParseError::kTruncated:
      return "truncated";
    case ParseError::kUnknownOpcode:
      return "unknown opcode";
    case ParseError::kBadTransportVersion:
      return "bad transport version";
    case ParseError::kUnaligned:
      return "length not a multiple of 4";
    case ParseError::kBadPad:
      return "pad longer than payload";
    case ParseError::kBadPayloadLength:
      return "bad payload length";
    case ParseError::kBadIpVersion:
      return "bad IP version";
    case ParseError::kIpOptions:
      return "IPv4 options";
    case ParseError::kIpFragment:
      return "IP fragment";
    case ParseError::kBadIpLength:
      return "bad IP length";
    case ParseError::kNotUdp:
      return "not UDP";
    case ParseError::kWrongPort:
      return "wrong UDP port";
    case ParseError::kBadUdpLength:
      return "bad UDP length";
    case ParseError::kBadIcrc:
      return "bad ICRC";
    case ParseError::kBadSetup:
      return "bad setup of a context";
    case ParseError::kCount:
      break;
  }
  return "unknown parse error";
}

}  // namespace weft::wire

// The opcodes of the base transport header by name, and the words in which opcode.h describes what
// each of them means. Include opcode.h, which has the table. Plain values, any thread.
//
//   bits 7..5 of the opcode: service   000 RC, 001 UC, 010 RD, 011 UD, 100 congestion
//   bits 4..0              : operation and position within the message
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::wire {

enum class Opcode : std::uint8_t {
  kRcSendFirst = 0x00,
  kRcSendMiddle = 0x01,
  kRcSendLast = 0x02,
  kRcSendLastWithImmediate = 0x03,
  kRcSendOnly = 0x04,
  kRcSendOnlyWithImmediate = 0x05,
  kRcWriteFirst = 0x06,
  kRcWriteMiddle = 0x07,
  kRcWriteLast = 0x08,
  kRcWriteLastWithImmediate = 0x09,
  kRcWriteOnly = 0x0A,
  kRcWriteOnlyWithImmediate = 0x0B,
  kRcReadRequest = 0x0C,
  kRcReadResponseFirst = 0x0D,
  kRcReadResponseMiddle = 0x0E,
  kRcReadResponseLast = 0x0F,
  kRcReadResponseOnly = 0x10,
  kRcAcknowledge = 0x11,
  kRcAtomicAcknowledge = 0x12,
  kRcCompareSwap = 0x13,
  kRcFetchAdd = 0x14,
  kRcSendLastWithInvalidate = 0x16,
  kRcSendOnlyWithInvalidate = 0x17,
  kRcAtomicWrite = 0x1D,

  kUcSendFirst = 0x20,
  kUcSendMiddle = 0x21,
  kUcSendLast = 0x22,
  kUcSendLastWithImmediate = 0x23,
  kUcSendOnly = 0x24,
  kUcSendOnlyWithImmediate = 0x25,
  kUcWriteFirst = 0x26,
  kUcWriteMiddle = 0x27,
  kUcWriteLast = 0x28,
  kUcWriteLastWithImmediate = 0x29,
  kUcWriteOnly = 0x2A,
  kUcWriteOnlyWithImmediate = 0x2B,

  kRdSendFirst = 0x40,
  kRdSendMiddle = 0x41,
  kRdSendLast = 0x42,
  kRdSendLastWithImmediate = 0x43,
  kRdSendOnly = 0x44,
  kRdSendOnlyWithImmediate = 0x45,
  kRdWriteFirst = 0x46,
  kRdWriteMiddle = 0x47,
  kRdWriteLast = 0x48,
  kRdWriteLastWithImmediate = 0x49,
  kRdWriteOnly = 0x4A,
  kRdWriteOnlyWithImmediate = 0x4B,
  kRdReadRequest = 0x4C,
  kRdReadResponseFirst = 0x4D,
  kRdReadResponseMiddle = 0x4E,
  kRdReadResponseLast = 0x4F,
  kRdReadResponseOnly = 0x50,
  kRdAcknowledge = 0x51,
  kRdAtomicAcknowledge = 0x52,
  kRdCompareSwap = 0x53,
  kRdFetchAdd = 0x54,
  kRdResync = 0x55,

  kUdSendOnly = 0x64,
  kUdSendOnlyWithImmediate = 0x65,

  kCnp = 0x81,
};

enum class Service : std::uint8_t { kRc, kUc, kRd, kUd, kCongestion };

enum class Operation : std::uint8_t {
  kSend,
  kWrite,
  kReadRequest,
  kReadResponse,
  kAcknowledge,
  kAtomicAcknowledge,
  kCompareSwap,
  kFetchAdd,
  kAtomicWrite,
  kResync,
  kCongestionNotification,
};

/// Place of a packet in its message; an operation that is always one packet is kOnly.
enum class Position : std::uint8_t { kFirst, kMiddle, kLast, kOnly };

struct OpcodeInfo {
  bool known = false;
  Service service{};
  Operation operation{};
  Position position{};
  bool has_immediate = false;
  bool has_invalidate = false;
  bool has_reth = false;
  bool has_aeth = false;
  bool has_atomic = false;
  bool has_atomic_ack = false;
  bool has_deth = false;
  bool has_rdeth = false;
  bool has_payload = false;       ///< bytes may follow the headers
  std::uint8_t header_bytes = 0;  ///< BTH and extension headers together
  const char* name = "unknown";

  constexpr bool is_first_or_only() const {
    return position == Position::kFirst || position == Position::kOnly;
  }
  constexpr bool is_last_or_only() const {
    return position == Position::kLast || position == Position::kOnly;
  }
};

/// A congestion notification carries exactly this many reserved bytes after its BTH.
inline constexpr std::size_t kCnpPayloadBytes = 16;

}  // namespace weft::wire

// What every opcode means, in one table: service, operation, place in the message, which extension
// headers follow and how long they are. Everything that depends on an opcode asks this table;
// nothing switches over opcodes. Constant data built at compile time, any thread.
//
// Headers follow the BTH in this order, those that an opcode has:
//
//   RDETH  DETH  RETH | AtomicETH | AETH [AtomicAckETH]  ImmDt | IETH  payload  pad
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "wire/opcode_names.h"

namespace weft::wire {

using OpcodeTable = std::array<OpcodeInfo, 256>;

namespace detail {

// Sizes of the headers, from the specification; each header's own file asserts that it agrees.
inline constexpr unsigned kBthBytes = 12, kRdethBytes = 4, kDethBytes = 8, kRethBytes = 16,
                          kAtomicBytes = 28, kAethBytes = 4, kAtomicAckBytes = 8,
                          kImmediateBytes = 4, kIethBytes = 4;

/// What an operation looks like apart from its service.
struct Shape {
  Operation operation;
  Position position;
  bool immediate = false, invalidate = false;
};

constexpr OpcodeInfo describe(Service service, const Shape& shape, const char* name) {
  const Operation op = shape.operation;
  const bool read_response = op == Operation::kReadResponse;
  const bool answer =
      read_response || op == Operation::kAcknowledge || op == Operation::kAtomicAcknowledge;
  OpcodeInfo i;
  i.known = true;
  i.service = service;
  i.operation = op;
  i.position = shape.position;
  i.has_immediate = shape.immediate;
  i.has_invalidate = shape.invalidate;
  i.has_rdeth = service == Service::kRd;
  // Answers of the RD service go to an end-to-end context, so they name no queue pair.
  i.has_deth = service == Service::kUd || (service == Service::kRd && !answer);
  i.has_reth = op == Operation::kReadRequest || op == Operation::kAtomicWrite ||
               (op == Operation::kWrite && i.is_first_or_only());
  i.has_atomic = op == Operation::kCompareSwap || op == Operation::kFetchAdd;
  i.has_aeth = answer && shape.position != Position::kMiddle;
  i.has_atomic_ack = op == Operation::kAtomicAcknowledge;
  i.has_payload = op == Operation::kSend || op == Operation::kWrite || read_response ||
                  op == Operation::kAtomicWrite || op == Operation::kCongestionNotification;
  i.header_bytes = static_cast<std::uint8_t>(
      kBthBytes + i.has_rdeth * kRdethBytes + i.has_deth * kDethBytes + i.has_reth * kRethBytes +
      i.has_atomic * kAtomicBytes + i.has_aeth * kAethBytes + i.has_atomic_ack * kAtomicAckBytes +
      i.has_immediate * kImmediateBytes + i.has_invalidate * kIethBytes);
  i.name = name;
  return i;
}

constexpr OpcodeTable build_opcode_table() {
  using enum Service;
  using enum Operation;
  using enum Position;
  OpcodeTable table{};
  auto add = [&table](Opcode opcode, Service service, const Shape& shape, const char* name) {
    table[static_cast<std::uint8_t>(opcode)] = describe(service, shape, name);
  };
  add(Opcode::kRcSendFirst, kRc, {kSend, kFirst}, "RC SEND FIRST");
  add(Opcode::kRcSendMiddle, kRc, {kSend, kMiddle}, "RC SEND MIDDLE");
  add(Opcode::kRcSendLast, kRc, {kSend, kLast}, "RC SEND LAST");
  add(Opcode::kRcSendLastWithImmediate, kRc, {kSend, kLast, true}, "RC SEND LAST WITH IMMEDIATE");
  add(Opcode::kRcSendOnly, kRc, {kSend, kOnly}, "RC SEND ONLY");
  add(Opcode::kRcSendOnlyWithImmediate, kRc, {kSend, kOnly, true}, "RC SEND ONLY WITH IMMEDIATE");
  add(Opcode::kRcWriteFirst, kRc, {kWrite, kFirst}, "RC WRITE FIRST");
  add(Opcode::kRcWriteMiddle, kRc, {kWrite, kMiddle}, "RC WRITE MIDDLE");
  add(Opcode::kRcWriteLast, kRc, {kWrite, kLast}, "RC WRITE LAST");
  add(Opcode::kRcWriteLastWithImmediate, kRc, {kWrite, kLast, true},
      "RC WRITE LAST WITH IMMEDIATE");
  add(Opcode::kRcWriteOnly, kRc, {kWrite, kOnly}, "RC WRITE ONLY");
  add(Opcode::kRcWriteOnlyWithImmediate, kRc, {kWrite, kOnly, true},
      "RC WRITE ONLY WITH IMMEDIATE");
  add(Opcode::kRcReadRequest, kRc, {kReadRequest, kOnly}, "RC READ REQUEST");
  add(Opcode::kRcReadResponseFirst, kRc, {kReadResponse, kFirst}, "RC READ RESPONSE FIRST");
  add(Opcode::kRcReadResponseMiddle, kRc, {kReadResponse, kMiddle}, "RC READ RESPONSE MIDDLE");
  add(Opcode::kRcReadResponseLast, kRc, {kReadResponse, kLast}, "RC READ RESPONSE LAST");
  add(Opcode::kRcReadResponseOnly, kRc, {kReadResponse, kOnly}, "RC READ RESPONSE ONLY");
  add(Opcode::kRcAcknowledge, kRc, {kAcknowledge, kOnly}, "RC ACKNOWLEDGE");
  add(Opcode::kRcAtomicAcknowledge, kRc, {kAtomicAcknowledge, kOnly}, "RC ATOMIC ACKNOWLEDGE");
  add(Opcode::kRcCompareSwap, kRc, {kCompareSwap, kOnly}, "RC COMPARE SWAP");
  add(Opcode::kRcFetchAdd, kRc, {kFetchAdd, kOnly}, "RC FETCH ADD");
  add(Opcode::kRcSendLastWithInvalidate, kRc, {kSend, kLast, false, true},
      "RC SEND LAST WITH INVALIDATE");
  add(Opcode::kRcSendOnlyWithInvalidate, kRc, {kSend, kOnly, false, true},
      "RC SEND ONLY WITH INVALIDATE");
  add(Opcode::kRcAtomicWrite, kRc, {kAtomicWrite, kOnly}, "RC ATOMIC WRITE");
  add(Opcode::kUcSendFirst, kUc, {kSend, kFirst}, "UC SEND FIRST");
  add(Opcode::kUcSendMiddle, kUc, {kSend, kMiddle}, "UC SEND MIDDLE");
  add(Opcode::kUcSendLast, kUc, {kSend, kLast}, "UC SEND LAST");
  add(Opcode::kUcSendLastWithImmediate, kUc, {kSend, kLast, true}, "UC SEND LAST WITH IMMEDIATE");
  add(Opcode::kUcSendOnly, kUc, {kSend, kOnly}, "UC SEND ONLY");
  add(Opcode::kUcSendOnlyWithImmediate, kUc, {kSend, kOnly, true}, "UC SEND ONLY WITH IMMEDIATE");
  add(Opcode::kUcWriteFirst, kUc, {kWrite, kFirst}, "UC WRITE FIRST");
  add(Opcode::kUcWriteMiddle, kUc, {kWrite, kMiddle}, "UC WRITE MIDDLE");
  add(Opcode::kUcWriteLast, kUc, {kWrite, kLast}, "UC WRITE LAST");
  add(Opcode::kUcWriteLastWithImmediate, kUc, {kWrite, kLast, true},
      "UC WRITE LAST WITH IMMEDIATE");
  add(Opcode::kUcWriteOnly, kUc, {kWrite, kOnly}, "UC WRITE ONLY");
  add(Opcode::kUcWriteOnlyWithImmediate, kUc, {kWrite, kOnly, true},
      "UC WRITE ONLY WITH IMMEDIATE");
  add(Opcode::kRdSendFirst, kRd, {kSend, kFirst}, "RD SEND FIRST");
  add(Opcode::kRdSendMiddle, kRd, {kSend, kMiddle}, "RD SEND MIDDLE");
  add(Opcode::kRdSendLast, kRd, {kSend, kLast}, "RD SEND LAST");
  add(Opcode::kRdSendLastWithImmediate, kRd, {kSend, kLast, true}, "RD SEND LAST WITH IMMEDIATE");
  add(Opcode::kRdSendOnly, kRd, {kSend, kOnly}, "RD SEND ONLY");
  add(Opcode::kRdSendOnlyWithImmediate, kRd, {kSend, kOnly, true}, "RD SEND ONLY WITH IMMEDIATE");
  add(Opcode::kRdWriteFirst, kRd, {kWrite, kFirst}, "RD WRITE FIRST");
  add(Opcode::kRdWriteMiddle, kRd, {kWrite, kMiddle}, "RD WRITE MIDDLE");
  add(Opcode::kRdWriteLast, kRd, {kWrite, kLast}, "RD WRITE LAST");
  add(Opcode::kRdWriteLastWithImmediate, kRd, {kWrite, kLast, true},
      "RD WRITE LAST WITH IMMEDIATE");
  add(Opcode::kRdWriteOnly, kRd, {kWrite, kOnly}, "RD WRITE ONLY");
  add(Opcode::kRdWriteOnlyWithImmediate, kRd, {kWrite, kOnly, true},
      "RD WRITE ONLY WITH IMMEDIATE");
  add(Opcode::kRdReadRequest, kRd, {kReadRequest, kOnly}, "RD READ REQUEST");
  add(Opcode::kRdReadResponseFirst, kRd, {kReadResponse, kFirst}, "RD READ RESPONSE FIRST");
  add(Opcode::kRdReadResponseMiddle, kRd, {kReadResponse, kMiddle}, "RD READ RESPONSE MIDDLE");
  add(Opcode::kRdReadResponseLast, kRd, {kReadResponse, kLast}, "RD READ RESPONSE LAST");
  add(Opcode::kRdReadResponseOnly, kRd, {kReadResponse, kOnly}, "RD READ RESPONSE ONLY");
  add(Opcode::kRdAcknowledge, kRd, {kAcknowledge, kOnly}, "RD ACKNOWLEDGE");
  add(Opcode::kRdAtomicAcknowledge, kRd, {kAtomicAcknowledge, kOnly}, "RD ATOMIC ACKNOWLEDGE");
  add(Opcode::kRdCompareSwap, kRd, {kCompareSwap, kOnly}, "RD COMPARE SWAP");
  add(Opcode::kRdFetchAdd, kRd, {kFetchAdd, kOnly}, "RD FETCH ADD");
  add(Opcode::kRdResync, kRd, {kResync, kOnly}, "RD RESYNC");
  add(Opcode::kUdSendOnly, kUd, {kSend, kOnly}, "UD SEND ONLY");
  add(Opcode::kUdSendOnlyWithImmediate, kUd, {kSend, kOnly, true}, "UD SEND ONLY WITH IMMEDIATE");
  add(Opcode::kCnp, kCongestion, {kCongestionNotification, kOnly}, "CNP");
  return table;
}

// Every combination of the five properties has a slot; those that no opcode has hold kNoOpcode.
inline constexpr std::size_t kServices = 5, kOperations = 11, kPositions = 4;
inline constexpr std::uint8_t kNoOpcode = 0xFF;

constexpr std::size_t opcode_slot(Service service, Operation operation, Position position,
                                  bool immediate, bool invalidate) {
  std::size_t slot = static_cast<std::size_t>(service);
  slot = slot * kOperations + static_cast<std::size_t>(operation);
  slot = slot * kPositions + static_cast<std::size_t>(position);
  return slot * 4 + (immediate ? 2 : 0) + (invalidate ? 1 : 0);
}

using OpcodeIndex = std::array<std::uint8_t, kServices * kOperations * kPositions * 4>;

constexpr OpcodeIndex build_opcode_index(const OpcodeTable& table) {
  OpcodeIndex index{};
  index.fill(kNoOpcode);
  for (std::size_t raw = 0; raw < table.size(); ++raw) {
    const OpcodeInfo& i = table[raw];
    if (!i.known) continue;
    index[opcode_slot(i.service, i.operation, i.position, i.has_immediate, i.has_invalidate)] =
        static_cast<std::uint8_t>(raw);
  }
  return index;
}

}  // namespace detail

inline constexpr OpcodeTable kOpcodeTable = detail::build_opcode_table();

namespace detail {
inline constexpr OpcodeIndex kOpcodeIndex = build_opcode_index(kOpcodeTable);
}  // namespace detail

/// Room for the BTH and extension headers of any opcode.
inline constexpr std::size_t kMaxHeaderBytes =
    std::max_element(kOpcodeTable.begin(), kOpcodeTable.end(), [](const auto& a, const auto& b) {
      return a.header_bytes < b.header_bytes;
    }) -> header_bytes;

constexpr const OpcodeInfo& info(Opcode opcode) {
  return kOpcodeTable[static_cast<std::uint8_t>(opcode)];
}

/// A plain acknowledgement of a reliable connection, by the packet's first byte.
constexpr bool is_acknowledgement(std::byte first) {
  return static_cast<Opcode>(first) == Opcode::kRcAcknowledge;
}

/// Whether of two packets that came together the later may be taken first, by their first bytes: an
/// acknowledgement before requests, so that a program learns that its message arrived before it
/// sees what the peer replied. Before answers, which it acknowledges too, it would be early.
constexpr bool may_go_first(std::byte later, std::byte earlier) {
  return is_acknowledgement(later) && static_cast<Opcode>(earlier) < Opcode::kRcReadResponseFirst;
}

/// True when make_opcode() would find one.
constexpr bool opcode_exists(Service service, Operation operation, Position position,
                             bool immediate, bool invalidate) {
  return detail::kOpcodeIndex[detail::opcode_slot(service, operation, position, immediate,
                                                  invalidate)] != detail::kNoOpcode;
}

/// The opcode for these properties; one table look-up. It must exist: asking for one that does not
/// (an immediate on a First packet, a UC read) is a bug of the caller.
constexpr Opcode make_opcode(Service service, Operation operation, Position position,
                             bool immediate = false, bool invalidate = false) {
  const std::uint8_t raw = detail::kOpcodeIndex[detail::opcode_slot(service, operation, position,
                                                                    immediate, invalidate)];
  WEFT_ASSERT(raw != detail::kNoOpcode);
  return Opcode{raw};
}

}  // namespace weft::wire

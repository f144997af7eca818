// What an initiator asks of a target in another process, in the records of a host ring, and how the
// target answers. Both ends are weft on one machine, so the layout is the machine's own; values are
// checked by whoever reads them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "host/ring.h"
#include "weft/types.h"

namespace weft::path {

enum class Ask : std::uint8_t {
  kSend = static_cast<std::uint8_t>(host::RecordKind::kFirstOfUser),
  kNotify,       ///< the immediate of a write that the initiator has done
  kWrite,        ///< behind RemotePart
  kRead,         ///< the same; the data comes back in the record
  kCompareSwap,  ///< the same; the old value comes back in `compare`
  kFetchAdd,
  kDatagram,     ///< behind DatagramPart
  kComplain,     ///< the initiator may not touch our memory: `immediate` is a Complaint
  kSends,        ///< several short sends, each behind a ShortSend
  kChoose,       ///< extended connections: `immediate` is the receive queue of what follows
  kAtomicWrite,  ///< behind RemotePart, as the other atomics; nothing comes back
};
inline constexpr std::uint8_t kLastAsk = static_cast<std::uint8_t>(Ask::kAtomicWrite);

/// What the initiator found when it tried by itself.
enum class Complaint : std::uint32_t {
  kRefused,   ///< the key does not allow it
  kVanished,  ///< the memory has gone
};

// Bits of RecordHeader::flags; the three highest tell the initiator's port.
inline constexpr std::uint8_t kFirstPart = 1;
inline constexpr std::uint8_t kLastPart = 2;
inline constexpr std::uint8_t kSolicits = 4;
inline constexpr std::uint8_t kHasImmediate = 8;
inline constexpr std::uint8_t kInvalidates = 16;
inline constexpr unsigned kPortShift = 5;
inline constexpr std::uint8_t kAllFlags = (1 << kPortShift) - 1;

/// Memory of the target, at the start of the payload.
struct RemotePart {
  std::uint64_t address;  ///< of this record's part
  std::uint32_t key;
  std::uint32_t offset;  ///< of the part in the message
  std::uint64_t compare;
  std::uint64_t operand;
};

/// A message of kSends; its bytes follow, up to the next multiple of four.
struct ShortSend {
  std::uint16_t bytes;
  std::uint8_t flags;  ///< kSolicits
  std::uint8_t unused;
};
constexpr std::uint32_t short_send_bytes(std::uint32_t message_bytes) {
  return std::uint32_t{sizeof(ShortSend)} + ((message_bytes + 3) & ~3u);
}

struct DatagramPart {
  std::uint32_t qkey;
  std::uint32_t flow_label;
  std::uint8_t traffic_class;
  std::uint8_t hop_limit;
  std::uint16_t unused;
  Gid destination;
};

/// Low byte of Record::status: how it went.
enum class Answer : std::uint32_t {
  kDone,       ///< what a record holds that nobody answered
  kNotReady,   ///< no receive buffer; the next byte is the timer code
  kOutOfTurn,  ///< something before it was not executed
  kNobody,     ///< no such queue pair, or not connected to the initiator's
  kAccess,
  kInvalid,
  kOperation,
  kLast = kOperation,
};

constexpr std::uint16_t status_with(Answer answer, std::uint8_t timer_code = 0) {
  return static_cast<std::uint16_t>(static_cast<unsigned>(answer) |
                                    (answer == Answer::kNotReady ? timer_code << 8 : 0));
}
constexpr Answer answer_in(std::uint16_t status) { return static_cast<Answer>(status & 0xFF); }
constexpr std::uint8_t timer_code_in(std::uint16_t status) {
  return static_cast<std::uint8_t>(status >> 8 & 31);
}

}  // namespace weft::path

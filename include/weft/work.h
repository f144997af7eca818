// Work requests and completions: what a program posts and what it gets back. Plain values; the
// spans that a request refers to need to live only until the post call returns, the memory that a
// gather or scatter list names until the request has completed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "weft/access.h"
#include "weft/types.h"

namespace weft {

/// One element of a gather or scatter list.
struct Sge {
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  LocalKey lkey;
};

/// Memory of a peer: the address and the key that its owner sent in a message.
struct RemoteAddress {
  std::uint64_t address = 0;
  RemoteKey key;
};

/// Where datagrams go: the content of an address handle.
struct AddressVector {
  Gid gid;
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t service_level = 0;
};

enum class SendOp : std::uint8_t {
  kSend,
  kSendImmediate,
  kSendInvalidate,
  kWrite,
  kWriteImmediate,
  kRead,
  kCompareSwap,
  kFetchAdd,
  kAtomicWrite,      ///< 8 bytes by one store, without a gather list
  kBind,             ///< bind a window to a range; length 0 unbinds
  kLocalInvalidate,  ///< take a key out of use, behind all earlier work
  kDelay,            ///< hold this queue for a time
};

std::string_view to_string(SendOp op);

/// Bits of SendRequest::flags; the values are libibverbs' IBV_SEND_*.
enum class SendFlags : std::uint8_t {
  kNone = 0,
  kFence = 1,
  kSignaled = 2,
  kSolicited = 4,
  kInline = 8,
};
constexpr SendFlags operator|(SendFlags a, SendFlags b) {
  return static_cast<SendFlags>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
constexpr bool has(SendFlags set, SendFlags flag) {
  return (static_cast<std::uint8_t>(set) & static_cast<std::uint8_t>(flag)) != 0;
}

/// What a bind asks for: `region` backs the range, `window` is the key to bind.
struct WindowBinding {
  RemoteKey window;
  std::uint8_t new_tag = 0;  ///< type-2 windows: low byte of the key after the bind
  LocalKey region;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  Access access = Access::kNone;
};

struct SendRequest {
  std::uint64_t wr_id = 0;
  SendOp op = SendOp::kSend;
  SendFlags flags = SendFlags::kSignaled;
  std::span<const Sge> sges{};
  std::uint32_t immediate = 0;
  RemoteKey invalidate_key{};  ///< kSendInvalidate, kLocalInvalidate
  RemoteAddress remote{};      ///< write, read, atomics
  std::uint64_t compare = 0;   ///< kCompareSwap
  std::uint64_t operand =
      0;                 ///< kCompareSwap, kAtomicWrite: the new value; kFetchAdd: what is added
  WindowBinding bind{};  ///< kBind
  Nanoseconds delay_ns = 0;     ///< kDelay
  AddressVector destination{};  ///< datagrams
  Qpn destination_qpn{};        ///< datagrams
  QKey destination_qkey{};      ///< datagrams
  SrqNumber remote_srq{};       ///< extended connections
};

struct ReceiveRequest {
  std::uint64_t wr_id = 0;
  std::span<const Sge> sges{};
};

/// Values are libibverbs' IBV_WC_*.
enum class CompletionStatus : std::uint8_t {
  kSuccess = 0,
  kLocalLengthError = 1,
  kLocalQpOperationError = 2,
  kLocalProtectionError = 4,
  kFlushed = 5,
  kWindowBindError = 6,
  kBadResponse = 7,
  kLocalAccessError = 8,
  kRemoteInvalidRequest = 9,
  kRemoteAccessError = 10,
  kRemoteOperationError = 11,
  kRetryExceeded = 12,
  kRnrRetryExceeded = 13,
  kRemoteInvalidRdRequest = 15,  ///< no such reliable datagram queue pair, or another Q_Key
};

std::string_view to_string(CompletionStatus status);

enum class CompletionOp : std::uint8_t {
  kSend,
  kWrite,
  kRead,
  kCompareSwap,
  kFetchAdd,
  kAtomicWrite,
  kBind,
  kLocalInvalidate,
  kDelay,
  kReceive,
  kReceiveWriteImmediate,
};

std::string_view to_string(CompletionOp op);

struct Completion {
  std::uint64_t wr_id = 0;
  CompletionStatus status = CompletionStatus::kSuccess;
  CompletionOp op = CompletionOp::kSend;
  bool has_immediate = false;
  bool has_invalidate = false;
  bool has_grh = false;
  std::uint32_t byte_count = 0;
  std::uint32_t immediate = 0;
  RemoteKey invalidated_key{};
  Qpn qpn{};
  Qpn source_qp{};

  bool ok() const { return status == CompletionStatus::kSuccess; }
};

inline constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 31;

}  // namespace weft

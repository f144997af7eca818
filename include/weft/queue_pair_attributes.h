// The settings of a queue pair and its states, in InfiniBand's words. Values only; the rules for
// which state may follow which are in transport/qp_state.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/access.h"
#include "weft/types.h"

namespace weft {

enum class Service : std::uint8_t {
  kReliableConnection,
  kUnreliableConnection,
  kUnreliableDatagram,
  kReliableDatagram,  ///< C++ only: libibverbs has no type for it
  kRawDatagram,       ///< whole packets of other protocols (weft/raw.h)
};
std::string_view to_string(Service service);

enum class QpState : std::uint8_t {
  kReset,
  kInit,
  kReadyToReceive,
  kReadyToSend,
  kSendQueueDrained,
  kSendQueueError,
  kError,
};
inline constexpr int kQpStates = 7;
std::string_view to_string(QpState state);

/// How a responder acknowledges: each frame by itself, or several with one.
enum class AckPolicy : std::uint8_t { kCoalesced, kEachFrame };

/// Everything that a modify call can set. The defaults suit one machine or one rack.
struct QueuePairAttributes {
  // INIT
  std::uint8_t port = 1;
  std::uint16_t pkey_index = 0;
  Access access = Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;
  QKey qkey{};
  // RTR
  Mtu path_mtu = Mtu::k4096;
  Gid remote_gid{};
  Qpn remote_qpn{};
  Psn receive_psn{};
  std::uint8_t max_dest_rd_atomic = 16;  ///< reads and atomics served at once
  std::uint8_t min_rnr_timer = 12;       ///< code of wire-facts: 12 = 0.64 ms
  AckPolicy ack_policy = AckPolicy::kCoalesced;
  // RTS
  Psn send_psn{};
  std::uint8_t timeout = 14;  ///< 4.096 us * 2^timeout, up to four times it; 0 = never
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;       ///< 7 = for ever
  std::uint8_t max_rd_atomic = 16;  ///< reads and atomics outstanding
};

/// Which attributes a modify call sets; the values are libibverbs' IBV_QP_*.
enum class QpAttribute : std::uint32_t {
  kNone = 0,
  kAccess = 1u << 3,
  kPKeyIndex = 1u << 4,
  kPort = 1u << 5,
  kQKey = 1u << 6,
  kAddress = 1u << 7,
  kPathMtu = 1u << 8,
  kTimeout = 1u << 9,
  kRetryCount = 1u << 10,
  kRnrRetry = 1u << 11,
  kReceivePsn = 1u << 12,
  kMaxRdAtomic = 1u << 13,
  kMinRnrTimer = 1u << 15,
  kSendPsn = 1u << 16,
  kMaxDestRdAtomic = 1u << 17,
  kRemoteQpn = 1u << 20,
  kAckPolicy = 1u << 31,  ///< weft's own
};
constexpr QpAttribute operator|(QpAttribute a, QpAttribute b) {
  return static_cast<QpAttribute>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr QpAttribute operator&(QpAttribute a, QpAttribute b) {
  return static_cast<QpAttribute>(static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b));
}
constexpr QpAttribute operator~(QpAttribute a) {
  return static_cast<QpAttribute>(~static_cast<std::uint32_t>(a));
}
constexpr bool has(QpAttribute set, QpAttribute flag) { return (set & flag) != QpAttribute::kNone; }
std::string to_string(QpAttribute set);

/// Fixed when the queue pair is created.
struct QueuePairLimits {
  std::uint32_t max_send_wr = 128;
  std::uint32_t max_recv_wr = 128;
  std::uint32_t max_send_sge = 4;
  std::uint32_t max_recv_sge = 4;
  std::uint32_t max_inline_bytes = 0;
};

}  // namespace weft

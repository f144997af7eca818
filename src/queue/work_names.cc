#include <utility>

#include "weft/queue_pair_attributes.h"
#include "weft/work.h"

namespace weft {

std::string_view to_string(SendOp op) {
  switch (op) {
    case SendOp::kSend:
      return "send";
    case SendOp::kSendImmediate:
      return "send with immediate";
    case SendOp::kSendInvalidate:
      return "send with invalidate";
    case SendOp::kWrite:
      return "write";
    case SendOp::kWriteImmediate:
      return "write with immediate";
    case SendOp::kRead:
      return "read";
    case SendOp::kCompareSwap:
      return "compare and swap";
    case SendOp::kFetchAdd:
      return "fetch and add";
    case SendOp::kAtomicWrite:
      return "atomic write";
    case SendOp::kBind:
      return "bind";
    case SendOp::kLocalInvalidate:
      return "local invalidate";
    case SendOp::kDelay:
      return "delay";
  }
  return "unknown operation";
}

std::string_view to_string(CompletionStatus status) {
  switch (status) {
    case CompletionStatus::kSuccess:
      return "success";
    case CompletionStatus::kLocalLengthError:
      return "local length error";
    case CompletionStatus::kLocalQpOperationError:
      return "local queue pair operation error";
    case CompletionStatus::kLocalProtectionError:
      return "local protection error";
    case CompletionStatus::kFlushed:
      return "flushed";
    case CompletionStatus::kWindowBindError:
      return "window bind error";
    case CompletionStatus::kBadResponse:
      return "bad response";
    case CompletionStatus::kLocalAccessError:
      return "local access error";
    case CompletionStatus::kRemoteInvalidRequest:
      return "remote invalid request";
    case CompletionStatus::kRemoteAccessError:
      return "remote access error";
    case CompletionStatus::kRemoteOperationError:
      return "remote operation error";
    case CompletionStatus::kRetryExceeded:
      return "retries exceeded";
    case CompletionStatus::kRnrRetryExceeded:
      return "receiver-not-ready retries exceeded";
    case CompletionStatus::kRemoteInvalidRdRequest:
      return "remote invalid reliable datagram request";
  }
  return "unknown status";
}

std::string_view to_string(CompletionOp op) {
  switch (op) {
    case CompletionOp::kSend:
      return "send";
    case CompletionOp::kWrite:
      return "write";
    case CompletionOp::kRead:
      return "read";
    case CompletionOp::kCompareSwap:
      return "compare and swap";
    case CompletionOp::kFetchAdd:
      return "fetch and add";
    case CompletionOp::kAtomicWrite:
      return "atomic write";
    case CompletionOp::kBind:
      return "bind";
    case CompletionOp::kLocalInvalidate:
      return "local invalidate";
    case CompletionOp::kDelay:
      return "delay";
    case CompletionOp::kReceive:
      return "receive";
    case CompletionOp::kReceiveWriteImmediate:
      return "receive of write with immediate";
  }
  return "unknown operation";
}

std::string_view to_string(Service service) {
  switch (service) {
    case Service::kReliableConnection:
      return "RC";
    case Service::kUnreliableConnection:
      return "UC";
    case Service::kUnreliableDatagram:
      return "UD";
    case Service::kReliableDatagram:
      return "RD";
    case Service::kRawDatagram:
      return "raw";
  }
  return "unknown service";
}

std::string_view to_string(QpState state) {
  switch (state) {
    case QpState::kReset:
      return "RESET";
    case QpState::kInit:
      return "INIT";
    case QpState::kReadyToReceive:
      return "RTR";
    case QpState::kReadyToSend:
      return "RTS";
    case QpState::kSendQueueDrained:
      return "SQD";
    case QpState::kSendQueueError:
      return "SQE";
    case QpState::kError:
      return "ERR";
  }
  return "unknown state";
}

std::string to_string(QpAttribute set) {
  static constexpr std::pair<QpAttribute, std::string_view> kNames[] = {
      {QpAttribute::kAccess, "access"},
      {QpAttribute::kPKeyIndex, "pkey_index"},
      {QpAttribute::kPort, "port"},
      {QpAttribute::kQKey, "qkey"},
      {QpAttribute::kAddress, "remote_gid"},
      {QpAttribute::kPathMtu, "path_mtu"},
      {QpAttribute::kTimeout, "timeout"},
      {QpAttribute::kRetryCount, "retry_count"},
      {QpAttribute::kRnrRetry, "rnr_retry"},
      {QpAttribute::kReceivePsn, "receive_psn"},
      {QpAttribute::kMaxRdAtomic, "max_rd_atomic"},
      {QpAttribute::kMinRnrTimer, "min_rnr_timer"},
      {QpAttribute::kSendPsn, "send_psn"},
      {QpAttribute::kMaxDestRdAtomic, "max_dest_rd_atomic"},
      {QpAttribute::kRemoteQpn, "remote_qpn"},
      {QpAttribute::kAckPolicy, "ack_policy"},
  };
  std::string text;
  for (const auto& [attribute, name] : kNames) {
    if (!has(set, attribute)) continue;
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

}  // namespace weft

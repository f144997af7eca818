#include <algorithm>
#include <cerrno>
#include <span>

#include "ucma/commands.h"

// Connections: asking, answering, ending.
namespace weft::ucma {
namespace {

constexpr std::uint8_t kResponseTimeout = 20;  // 4.096 us << 20: 4 s
constexpr std::uint8_t kCmRetries = 15;
constexpr std::uint8_t kMostRetries = 7;

template <class Parameters>
std::span<const std::byte> private_data_of(const Parameters& parameters) {
  return std::as_bytes(std::span(parameters.private_data)).first(parameters.private_data_len);
}

cm::Transport transport_of(QpType type) {
  switch (type) {
    case QpType::kUnreliable:
      return cm::Transport::kUnreliable;
    case QpType::kExtendedSend:
    case QpType::kExtendedReceive:
      return cm::Transport::kExtended;
    default:
      return cm::Transport::kReliable;
  }
}

cm::Request request_of(const Identifier& id, const rdma_ucm_conn_param& from,
                       const rdma_ucm_ece& vendor) {
  cm::Request to;
  to.qpn = Qpn(from.qp_num & kMask24);
  to.responder_resources = from.responder_resources;
  to.initiator_depth = from.initiator_depth;
  to.remote_response_timeout = to.local_response_timeout = kResponseTimeout;
  to.transport = transport_of(id.qp_type);
  to.flow_control = from.flow_control != 0;
  to.retry_count = std::min(from.retry_count, kMostRetries);
  to.rnr_retry_count = std::min(from.rnr_retry_count, kMostRetries);
  to.pkey = kDefaultPKey;
  to.mtu_code = id.mtu_code;
  to.max_cm_retries = kCmRetries;
  to.srq = from.srq != 0;
  to.primary.hop_limit = kHopLimit;
  to.primary.ack_timeout = id.ack_timeout.value_or(kAckTimeout);
  to.vendor = {vendor.vendor_id & kMask24, vendor.attr_mod};
  return to;
}

int accept_connection(const Call& call, Identifier& id, const rdma_ucm_accept& command) {
  const rdma_ucm_conn_param& from = command.conn_param;
  if (!id.connection) return EINVAL;
  cm::Reply to;
  const auto data = private_data_of(from);
  if (data.size() > to.private_data.size()) return EINVAL;
  std::copy(data.begin(), data.end(), to.private_data.begin());
  to.qpn = Qpn(from.qp_num & kMask24);
  to.responder_resources = from.responder_resources;
  to.initiator_depth = from.initiator_depth;
  to.flow_control = from.flow_control != 0;
  to.rnr_retry_count = std::min(from.rnr_retry_count, kMostRetries);
  to.srq = from.srq != 0;
  to.ca_guid = id.device->guid;
  to.vendor = {command.ece.vendor_id & kMask24, command.ece.attr_mod};
  return call.agent.accept(id, to);
}

int accept_datagrams(const Call& call, Identifier& id, const rdma_ucm_accept& command) {
  const rdma_ucm_conn_param& from = command.conn_param;
  cm::ServiceReply to;
  const auto data = private_data_of(from);
  if (data.size() > to.private_data.size()) return EINVAL;
  std::copy(data.begin(), data.end(), to.private_data.begin());
  to.qpn = Qpn(from.qp_num & kMask24);
  if (from.qkey != 0) id.qkey = QKey(from.qkey);
  to.qkey = id.qkey;
  to.vendor = {command.ece.vendor_id & kMask24, command.ece.attr_mod};
  return call.agent.answer(id, to);
}

}  // namespace

int connect(const Call& call) {
  const auto command = call.read<rdma_ucm_connect>();
  if (command.conn_param.valid == 0) return EINVAL;
  int error = 0;
  Identifier* const id = call.find(command.id, error);
  if (id == nullptr) return error;
  const auto data = private_data_of(command.conn_param);
  if (id->datagram()) {
    if (command.conn_param.qkey != 0) id->qkey = QKey(command.conn_param.qkey);
    return call.agent.ask(*id, data);
  }
  return call.agent.connect(*id, request_of(*id, command.conn_param, command.ece), data);
}

int accept(const Call& call) {
  const auto command = call.read<rdma_ucm_accept>();
  int error = 0;
  Identifier* const id = call.find(command.id, error);
  if (id == nullptr) return error;
  if (command.conn_param.valid == 0) return call.agent.confirm(*id);
  const UserTag before = id->tag;
  id->tag = UserTag(command.uid);
  error =
      id->datagram() ? accept_datagrams(call, *id, command) : accept_connection(call, *id, command);
  if (error != 0) id->tag = before;
  return error;
}

int reject(const Call& call) {
  const auto command = call.read<rdma_ucm_reject>();
  const auto reason = command.reason == 0 ? cm::RejectReason::kConsumer
                                          : static_cast<cm::RejectReason>(command.reason);
  if (reason != cm::RejectReason::kConsumer && reason != cm::RejectReason::kVendorOption) {
    return EINVAL;
  }
  int error = 0;
  Identifier* const id = call.find(command.id, error);
  if (id == nullptr) return error;
  const auto data = private_data_of(command);
  if (!id->datagram()) {
    if (data.size() > sizeof cm::Reject::private_data) return EINVAL;
    return call.agent.reject(*id, reason, data);
  }
  cm::ServiceReply reply;
  if (data.size() > reply.private_data.size()) return EINVAL;
  std::copy(data.begin(), data.end(), reply.private_data.begin());
  reply.status = cm::ServiceStatus::kReject;
  return call.agent.answer(*id, reply);
}

int disconnect(const Call& call) {
  const auto command = call.read<rdma_ucm_disconnect>();
  int error = 0;
  Identifier* const id = call.find(command.id, error);
  return id == nullptr ? error : call.agent.disconnect(*id);
}

int notify(const Call& call) {
  constexpr std::uint32_t kCommunicationEstablished = 4;  // of the verbs' asynchronous events
  const auto command = call.read<rdma_ucm_notify>();
  int error = 0;
  Identifier* const id = call.find(command.id, error);
  if (id == nullptr) return error;
  if (command.event != kCommunicationEstablished) return EINVAL;
  return call.agent.on_data(*id);
}

}  // namespace weft::ucma

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/big_endian.h"
#include "ucma/commands.h"
#include "ucma/sockaddr.h"

// What programs ask about an identifier: its addresses, its path, and how to set up its queue pair.
namespace weft::ucma {
namespace {

constexpr std::uint32_t kNoDeviceIndex = ~std::uint32_t{0};  // found by its GUID then
constexpr std::uint8_t kExactly = 2;                         // of selectors in path records
constexpr std::uint8_t kRate = IBV_RATE_100_GBPS;
constexpr std::uint8_t kMinRnrTimer = 12;  // 0.64 ms
constexpr std::size_t kSockaddrIbAddress = 8, kSockaddrIbBytes = 48;
constexpr std::uint16_t kAfIb = 27;

bool has_path(const cm::Identifier& id) {
  return id.state == cm::Identifier::State::kRouteResolved ||
         id.state == cm::Identifier::State::kConnecting;
}

std::uint64_t guid_of(const cm::Identifier& id) {
  return base::byte_swap_if_little(id.device->guid);
}

void set_path(ib_user_path_rec& path, const cm::Identifier& id) {
  std::memcpy(path.dgid, id.remote_gid.raw.data(), sizeof path.dgid);
  std::memcpy(path.sgid, id.local_gid.raw.data(), sizeof path.sgid);
  path.pkey = htons(kDefaultPKey.value);
  if (!has_path(id)) return;
  path.reversible = 1;
  path.mtu = id.mtu_code;
  path.hop_limit = cm::kHopLimit;
  path.traffic_class = id.traffic_class;
  path.numb_path = 1;
  path.mtu_selector = path.rate_selector = path.packet_life_time_selector = kExactly;
  path.rate = kRate;
  path.packet_life_time = id.ack_timeout.value_or(cm::kAckTimeout);
}

int query_addresses(const Call& call, const rdma_ucm_query& command, const cm::Identifier& id) {
  rdma_ucm_query_addr_resp answer{};
  answer.src_size = static_cast<std::uint16_t>(emit_sockaddr(id.source, answer.src_addr));
  answer.dst_size = static_cast<std::uint16_t>(emit_sockaddr(id.destination, answer.dst_addr));
  answer.ibdev_index = kNoDeviceIndex;
  if (id.device != nullptr) {
    answer.node_guid = guid_of(id);
    answer.port_num = 1;
    answer.pkey = htons(kDefaultPKey.value);
  }
  return call.respond(command.response, answer, offsetof(rdma_ucm_query_addr_resp, ibdev_index));
}

/// The wire's form of a path record: 64 bytes, big-endian.
void emit_path(const cm::Identifier& id, std::span<std::byte, 64> to) {
  std::memcpy(&to[8], id.remote_gid.raw.data(), 16);
  std::memcpy(&to[24], id.local_gid.raw.data(), 16);
  base::store_be(&to[44], std::uint32_t{cm::kHopLimit});
  to[48] = std::byte{id.traffic_class};
  to[49] = std::byte{0x81};  // reversible, one path
  base::store_be(&to[50], kDefaultPKey.value);
  to[54] = static_cast<std::byte>(kExactly << 6 | id.mtu_code);
  to[55] = static_cast<std::byte>(kExactly << 6 | kRate);
  to[56] = static_cast<std::byte>(kExactly << 6 | id.ack_timeout.value_or(cm::kAckTimeout));
}

int query_path(const Call& call, const rdma_ucm_query& command, const cm::Identifier& id) {
  struct {
    std::uint32_t num_paths;
    std::uint32_t reserved;
    ib_path_rec_data path;
  } answer{};
  static_assert(offsetof(decltype(answer), path) == offsetof(rdma_ucm_query_path_resp, path_data));
  if (has_path(id)) {
    answer.num_paths = 1;
    answer.path.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
    emit_path(id, std::as_writable_bytes(std::span(answer.path.path_rec)));
  }
  return call.respond(command.response, answer, sizeof(rdma_ucm_query_path_resp));
}

void emit_gid(const cm::Identifier& id, const Gid& gid, __kernel_sockaddr_storage& to) {
  if (id.device == nullptr) return;
  const auto bytes = std::as_writable_bytes(std::span(&to, 1));
  std::memcpy(bytes.data(), &kAfIb, sizeof kAfIb);
  base::store_be(&bytes[2], kDefaultPKey.value);
  std::memcpy(&bytes[kSockaddrIbAddress], gid.raw.data(), gid.raw.size());
}

int query_gids(const Call& call, const rdma_ucm_query& command, const cm::Identifier& id) {
  rdma_ucm_query_addr_resp answer{};
  answer.src_size = answer.dst_size = kSockaddrIbBytes;
  answer.ibdev_index = kNoDeviceIndex;
  emit_gid(id, id.local_gid, answer.src_addr);
  emit_gid(id, id.remote_gid, answer.dst_addr);
  if (id.device != nullptr) {
    answer.node_guid = guid_of(id);
    answer.port_num = 1;
    answer.pkey = htons(kDefaultPKey.value);
  }
  return call.respond(command.response, answer, offsetof(rdma_ucm_query_addr_resp, ibdev_index));
}

void set_init(ib_uverbs_qp_attr& to, const cm::Identifier& id) {
  to.qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  to.port_num = 1;
  if (id.datagram()) {
    to.qp_attr_mask |= IBV_QP_QKEY;
    to.qkey = id.qkey.value;
    return;
  }
  to.qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
  if (!id.connection) return;
  to.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (id.connection->terms().responder_resources != 0) {
    to.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  }
}

void set_ready_to_receive(ib_uverbs_qp_attr& to, const cm::Identifier& id) {
  const cm::Connection::Terms& terms = id.connection->terms();
  const bool known_mtu = terms.mtu_code >= IBV_MTU_256 && terms.mtu_code <= id.mtu_code;
  to.qp_attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  to.ah_attr = address_vector(id, id.remote_gid);
  to.path_mtu = known_mtu ? terms.mtu_code : id.mtu_code;
  to.dest_qp_num = terms.remote_qpn.value;
  to.rq_psn = terms.receive_psn.value();
  if (id.qp_type == cm::QpType::kReliable || id.qp_type == cm::QpType::kExtendedReceive) {
    to.qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    to.max_dest_rd_atomic = terms.responder_resources;
    to.min_rnr_timer = kMinRnrTimer;
  }
}

void set_ready_to_send(ib_uverbs_qp_attr& to, const cm::Identifier& id) {
  const cm::Connection::Terms& terms = id.connection->terms();
  to.qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  to.sq_psn = terms.send_psn.value();
  if (id.qp_type == cm::QpType::kReliable || id.qp_type == cm::QpType::kExtendedSend) {
    to.qp_attr_mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    to.retry_cnt = terms.retry_count;
    to.rnr_retry = terms.rnr_retry_count;
    to.max_rd_atomic = terms.initiator_depth;
  }
  if (id.qp_type != cm::QpType::kUnreliable) {
    to.qp_attr_mask |= IBV_QP_TIMEOUT;
    to.timeout = id.ack_timeout.value_or(cm::kAckTimeout);
  }
}

/// The peer's numbers are known.
bool can_be_ready(const cm::Identifier& id) {
  if (!id.connection) return false;
  switch (id.connection->phase()) {
    case cm::Connection::Phase::kRequestReceived:
    case cm::Connection::Phase::kReplySent:
    case cm::Connection::Phase::kReplyReceived:
    case cm::Connection::Phase::kEstablished:
      return true;
    default:
      return false;
  }
}

}  // namespace

int query_route(const Call& call) {
  const auto command = call.read<rdma_ucm_query>();
  int error = 0;
  const Context* const context = call.find(command.id, error);
  if (context == nullptr) return error;
  const cm::Identifier& id = context->id;
  rdma_ucm_query_route_resp answer{};
  emit_sockaddr(id.source, answer.src_addr);
  emit_sockaddr(id.destination, answer.dst_addr);
  answer.ibdev_index = kNoDeviceIndex;
  if (id.device != nullptr) {
    answer.node_guid = guid_of(id);
    answer.port_num = 1;
    answer.num_paths = has_path(id) ? 1 : 0;
    set_path(answer.ib_route[0], id);
  }
  return call.respond(command.response, answer, offsetof(rdma_ucm_query_route_resp, ibdev_index));
}

int query(const Call& call) {
  const auto command = call.read<rdma_ucm_query>();
  int error = 0;
  const Context* const context = call.find(command.id, error);
  if (context == nullptr) return error;
  const cm::Identifier& id = context->id;
  switch (command.option) {
    case RDMA_USER_CM_QUERY_ADDR:
      return query_addresses(call, command, id);
    case RDMA_USER_CM_QUERY_PATH:
      return query_path(call, command, id);
    case RDMA_USER_CM_QUERY_GID:
      return query_gids(call, command, id);
    default:
      return ENOSYS;
  }
}

int init_qp_attributes(const Call& call) {
  const auto command = call.read<rdma_ucm_init_qp_attr>();
  if (command.qp_state > IBV_QPS_ERR) return EINVAL;
  int error = 0;
  const Context* const context = call.find(command.id, error);
  if (context == nullptr) return error;
  const cm::Identifier& id = context->id;
  if (id.device == nullptr) return EINVAL;
  ib_uverbs_qp_attr answer{};
  answer.qp_state = command.qp_state;
  if (command.qp_state == IBV_QPS_INIT) {
    set_init(answer, id);
  } else if (id.datagram()) {
    answer.qp_attr_mask = IBV_QP_STATE;
    if (command.qp_state == IBV_QPS_RTS) answer.qp_attr_mask |= IBV_QP_SQ_PSN;
  } else if (!can_be_ready(id)) {
    return EINVAL;
  } else if (command.qp_state == IBV_QPS_RTR) {
    set_ready_to_receive(answer, id);
  } else if (command.qp_state == IBV_QPS_RTS) {
    set_ready_to_send(answer, id);
  } else {
    return EINVAL;
  }
  return call.respond(command.response, answer);
}

}  // namespace weft::ucma

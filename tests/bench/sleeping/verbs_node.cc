#include "verbs_node.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "echo_run.h"

namespace weft::bench {
namespace {

/// One message is under way on a connection; the second receive is there while the first is
/// handled.
constexpr std::uint32_t kReceives = 2;
constexpr std::uint32_t kBuffersPerConnection = 1 + kReceives;

/// What the other end must know to reach a queue pair.
struct Address {
  std::uint32_t qp_number = 0, psn = 0;
  std::uint16_t lid = 0;
  std::uint16_t mtu = 0;
  ibv_gid gid{};
};

void check(int error, const char* what) {
  if (error == 0) return;
  errno = error > 0 ? error : errno;
  give_up_errno(what);
}

template <class T>
T* need(T* object, const char* what) {
  if (object == nullptr) give_up_errno(what);
  return object;
}

ibv_context* open_device(const std::string& name) {
  ibv_device** const list = need(ibv_get_device_list(nullptr), "ibv_get_device_list");
  ibv_context* context = nullptr;
  for (ibv_device** device = list; *device != nullptr && context == nullptr; ++device) {
    if (!name.empty() && name != ibv_get_device_name(*device)) continue;
    context = need(ibv_open_device(*device), "ibv_open_device");
  }
  ibv_free_device_list(list);
  if (context == nullptr) give_up("no RDMA device " + name + " (on weft: weft run -- verbs_echo)");
  return context;
}

void to_init(ibv_qp* qp, int port) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = static_cast<std::uint8_t>(port);
  check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        "to INIT");
}

void to_rtr(ibv_qp* qp, const VerbsSettings& settings, bool global, std::uint16_t mtu,
            const Address& peer) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = static_cast<ibv_mtu>(std::min(mtu, peer.mtu));
  attr.dest_qp_num = peer.qp_number;
  attr.rq_psn = peer.psn;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;
  attr.ah_attr.dlid = peer.lid;
  attr.ah_attr.port_num = static_cast<std::uint8_t>(settings.port);
  attr.ah_attr.is_global = global;
  attr.ah_attr.grh.dgid = peer.gid;
  attr.ah_attr.grh.hop_limit = 64;
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(settings.gid_index);
  check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
        "to RTR");
}

void to_rts(ibv_qp* qp, std::uint32_t psn) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = psn;
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 1;
  check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                          IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
        "to RTS");
}

ibv_sge gather(std::span<std::byte> bytes, const ibv_mr& mr) {
  return {reinterpret_cast<std::uintptr_t>(bytes.data()), static_cast<std::uint32_t>(bytes.size()),
          mr.lkey};
}

}  // namespace

VerbsNode::VerbsNode(const VerbsSettings& settings, std::uint32_t connections, std::uint32_t size)
    : settings_(settings), size_(size) {
  context_ = open_device(settings.device);
  const auto port = static_cast<std::uint8_t>(settings.port);
  check(ibv_query_port(context_, port, &port_), "ibv_query_port");
  check(ibv_query_gid(context_, port, settings.gid_index, &gid_), "ibv_query_gid");
  pd_ = need(ibv_alloc_pd(context_), "ibv_alloc_pd");
  memory_.resize(std::size_t{connections} * kBuffersPerConnection * size);
  mr_ = need(ibv_reg_mr(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
  if (!settings.channel_per_connection) add_completions(connections);
  for (std::uint32_t i = 0; i < connections; ++i) {
    if (settings.channel_per_connection) add_completions(1);
    add_connection(completions_.back());
  }
}

void VerbsNode::add_completions(std::uint32_t connections) {
  Completions& made = completions_.emplace_back();
  made.channel = need(ibv_create_comp_channel(context_), "ibv_create_comp_channel");
  const auto entries = connections * (kReceives + 2 * settings_.signal_interval);
  made.cq = need(ibv_create_cq(context_, static_cast<int>(entries), &made, made.channel, 0),
                 "ibv_create_cq");
}

void VerbsNode::add_connection(const Completions& completions) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = completions.cq;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = 2 * settings_.signal_interval;
  init.cap.max_recv_wr = kReceives;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  connections_.push_back({need(ibv_create_qp(pd_, &init), "ibv_create_qp"), 0});
}

void VerbsNode::connect(const Control& control) {
  std::mt19937 random{std::random_device{}()};
  for (const Completions& completions : completions_) request_event(completions);
  for (std::uint32_t i = 0; i < connections_.size(); ++i) {
    ibv_qp* const qp = connections_[i].qp;
    to_init(qp, settings_.port);
    for (std::uint32_t slot = 0; slot < kReceives; ++slot) post_receive(i, slot);
    const Address mine{qp->qp_num, static_cast<std::uint32_t>(random() & 0xffffff), port_.lid,
                       static_cast<std::uint16_t>(port_.active_mtu), gid_};
    const Address theirs = control.swap(mine);
    const bool global = port_.link_layer == IBV_LINK_LAYER_ETHERNET || theirs.lid == 0;
    to_rtr(qp, settings_, global, mine.mtu, theirs);
    to_rts(qp, mine.psn);
  }
  control.swap('r');  // ready: nobody sends before all can receive
}

std::span<std::byte> VerbsNode::buffer(std::uint32_t connection, std::uint32_t index) {
  const std::size_t at = std::size_t{connection} * kBuffersPerConnection + index;
  return std::span(memory_).subspan(at * size_, size_);
}

std::span<std::byte> VerbsNode::outgoing(std::uint32_t connection) { return buffer(connection, 0); }

std::span<std::byte> VerbsNode::incoming(std::uint32_t connection, std::uint32_t slot) {
  return buffer(connection, 1 + slot);
}

void VerbsNode::send(std::uint32_t connection) {
  Connection& c = connections_[connection];
  ibv_sge sge = gather(outgoing(connection), *mr_);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = std::uint64_t{connection} << 32;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  if (++c.sends % settings_.signal_interval == 0) wr.send_flags = IBV_SEND_SIGNALED;
  check(ibv_post_send(c.qp, &wr, &bad), "ibv_post_send");
}

void VerbsNode::post_receive(std::uint32_t connection, std::uint32_t slot) {
  ibv_sge sge = gather(incoming(connection, slot), *mr_);
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = std::uint64_t{connection} << 32 | (slot + 1);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  check(ibv_post_recv(connections_[connection].qp, &wr, &bad), "ibv_post_recv");
}

void VerbsNode::request_event(const Completions& completions) {
  check(ibv_req_notify_cq(completions.cq, 0), "ibv_req_notify_cq");
}

int VerbsNode::poll(const Completions& completions, std::span<ibv_wc> into) {
  const int n = ibv_poll_cq(completions.cq, static_cast<int>(into.size()), into.data());
  if (n < 0) give_up("ibv_poll_cq failed");
  for (const ibv_wc& wc : into.first(static_cast<std::size_t>(n))) {
    if (wc.status != IBV_WC_SUCCESS) {
      give_up(std::string("completion: ") + ibv_wc_status_str(wc.status));
    }
  }
  return n;
}

}  // namespace weft::bench

#include "shim/queue_pair.h"

#include <algorithm>
#include <new>

#include "shim/address.h"
#include "shim/errors.h"
#include "shim/qp_ex.h"
#include "shim/real.h"
#include "shim/receive_wq.h"
#include "shim/xrc.h"

namespace weft::shim {
namespace {

/// Bits of ibv_qp_attr_mask that say what the call is about, and none of the settings.
constexpr int kNoSetting = IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY;
/// Settings of what weft does not have.
constexpr int kUnknown = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_CAP | IBV_QP_RATE_LIMIT;

std::optional<Service> service_of(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
      return Service::kReliableConnection;
    case IBV_QPT_UC:
      return Service::kUnreliableConnection;
    case IBV_QPT_UD:
      return Service::kUnreliableDatagram;
    case IBV_QPT_RAW_PACKET:
      return Service::kRawDatagram;
    default:
      return {};
  }
}

ibv_qp_state state_of(QpState state) {
  switch (state) {
    case QpState::kReset:
      return IBV_QPS_RESET;
    case QpState::kInit:
      return IBV_QPS_INIT;
    case QpState::kReadyToReceive:
      return IBV_QPS_RTR;
    case QpState::kReadyToSend:
      return IBV_QPS_RTS;
    case QpState::kSendQueueDrained:
      return IBV_QPS_SQD;
    case QpState::kSendQueueError:
      return IBV_QPS_SQE;
    case QpState::kError:
      return IBV_QPS_ERR;
  }
  return IBV_QPS_UNKNOWN;
}

std::optional<QpState> state_of(ibv_qp_state state) {
  for (int i = 0; i < kQpStates; ++i) {
    if (state_of(static_cast<QpState>(i)) == state) return static_cast<QpState>(i);
  }
  return {};
}

std::optional<Mtu> mtu_of(ibv_mtu mtu) {
  if (mtu < IBV_MTU_256 || mtu > IBV_MTU_4096) return {};
  return static_cast<Mtu>(128u << static_cast<unsigned>(mtu));
}

Result<QueuePairAttributes> attributes_of(Context& context, const ibv_qp_attr& from, int mask) {
  QueuePairAttributes to;
  to.port = from.port_num;
  to.pkey_index = from.pkey_index;
  to.access = static_cast<Access>(from.qp_access_flags & 0xF);
  to.qkey = QKey(from.qkey);
  if ((mask & IBV_QP_PATH_MTU) != 0) {
    const auto mtu = mtu_of(from.path_mtu);
    if (!mtu) return fail(Errc::kInvalidArgument, "path_mtu: no such value");
    to.path_mtu = *mtu;
  }
  if ((mask & IBV_QP_AV) != 0) {
    auto vector = vector_of(context, from.ah_attr);
    if (!vector) return tl::unexpected(std::move(vector.error()));
    to.remote_gid = vector->gid;
  }
  to.remote_qpn = Qpn(from.dest_qp_num);
  to.receive_psn = Psn(from.rq_psn);
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.send_psn = Psn(from.sq_psn);
  to.timeout = from.timeout;
  to.retry_count = from.retry_cnt;
  to.rnr_retry = from.rnr_retry;
  to.max_rd_atomic = from.max_rd_atomic;
  return to;
}

/// Programs post short messages inline without having asked for room: real devices have some. Many
/// ask for little and use what they are granted (UCX: datagrams that open a connection have some
/// 150 bytes). It takes memory only when it is used.
constexpr std::uint32_t kLeastInlineBytes = 256;

/// What stands behind the attributes: for a target of extended connections, which has no part in
/// them that the program knows, the domain's own.
struct Parts {
  const verbs::ProtectionDomain& pd;
  const verbs::CompletionQueue& send_cq;
  const verbs::CompletionQueue& recv_cq;
  verbs::QueuePairOptions options;
  std::shared_ptr<const verbs::FanoutObject> fanout = nullptr;  ///< what the options point to
};

bool spreads(const ibv_qp_init_attr_ex& attr) {
  return (attr.comp_mask & IBV_QP_INIT_ATTR_IND_TABLE) != 0;
}

/// One that spreads what it receives is never modified by its program: its queues have the states.
Result<void> start_receiving(verbs::QueuePair& qp) {
  if (auto done = qp.modify(QpState::kInit, {}, QpAttribute::kPort); !done) return done;
  return qp.modify(QpState::kReadyToReceive);
}

/// Of a raw queue pair over a table of receive work queues: it does not send, and of the queues for
/// its completions any will do.
std::optional<Parts> spread_parts_of(const ibv_qp_init_attr_ex& attr,
                                     verbs::QueuePairOptions options) {
  if (attr.qp_type != IBV_QPT_RAW_PACKET || attr.pd == nullptr) return {};
  options.service = Service::kRawDatagram;
  options.raw_framing = RawFraming::kEthernet;
  options.limits = {};
  options.limits.max_send_wr = options.limits.max_recv_wr = 0;
  auto fanout = fanout_of(attr.rwq_ind_tbl, attr.rx_hash_conf);
  if (fanout == nullptr) return {};
  options.fanout = fanout.get();
  const verbs::CompletionQueue& any = any_cq_of(attr.rwq_ind_tbl);
  return Parts{Pd::of(attr.pd).pd, any, any, options, std::move(fanout)};
}

std::optional<Parts> parts_of(const ibv_qp_init_attr_ex& attr) {
  verbs::QueuePairOptions options;
  options.signal_all = attr.sq_sig_all != 0;
  const auto& cap = attr.cap;
  options.limits = {.max_send_wr = cap.max_send_wr,
                    .max_recv_wr = cap.max_recv_wr,
                    .max_send_sge = cap.max_send_sge,
                    .max_recv_sge = cap.max_recv_sge,
                    .max_inline_bytes = std::max(cap.max_inline_data, kLeastInlineBytes)};
  if (attr.qp_type == IBV_QPT_XRC_RECV) {
    if (attr.xrcd == nullptr) return {};
    const Xrcd& xrcd = Xrcd::of(attr.xrcd);
    options.limits = {};
    options.limits.max_send_wr = options.limits.max_recv_wr = 0;
    options.xrc_domain = &xrcd.domain;
    return Parts{xrcd.pd, xrcd.cq, xrcd.cq, options};
  }
  if (spreads(attr)) return spread_parts_of(attr, std::move(options));
  if (attr.qp_type == IBV_QPT_RAW_PACKET) options.raw_framing = RawFraming::kEthernet;
  options.extended_initiator = attr.qp_type == IBV_QPT_XRC_SEND;
  ibv_cq* const recv_cq = options.extended_initiator ? attr.send_cq : attr.recv_cq;
  if (attr.pd == nullptr || attr.send_cq == nullptr || recv_cq == nullptr) return {};
  if (attr.srq != nullptr || options.extended_initiator) {
    options.limits.max_recv_wr = options.limits.max_recv_sge = 0;
  }
  options.service = *service_of(attr.qp_type);
  if (attr.srq != nullptr) options.shared_receive = &Srq::of(attr.srq).srq;
  return Parts{Pd::of(attr.pd).pd, Cq::of(attr.send_cq).cq, Cq::of(recv_cq).cq, options};
}

/// One more user of each, or one less.
void count_users(const ibv_qp& qp, Xrcd* xrcd, int more) {
  if (qp.pd != nullptr) Pd::of(qp.pd).users += more;
  if (qp.send_cq != nullptr) Cq::of(qp.send_cq).users += more;
  if (qp.recv_cq != nullptr) Cq::of(qp.recv_cq).users += more;
  if (qp.srq != nullptr) Srq::of(qp.srq).users += more;
  if (xrcd != nullptr) xrcd->users += more;
}

Qp* make_qp(ibv_context* context, ibv_qp_init_attr_ex& attr) {
  if (!service_of(attr.qp_type)) return refuse(EOPNOTSUPP);
  // Raw packets are Ethernet's.
  if (attr.qp_type == IBV_QPT_RAW_PACKET &&
      Context::of(context).weft().link_layer != files::LinkLayer::kEthernet) {
    return refuse(EOPNOTSUPP);
  }
  const auto parts = parts_of(attr);
  if (!parts) return refuse(EINVAL);
  auto made = parts->pd.create_queue_pair(parts->send_cq, parts->recv_cq, parts->options);
  if (!made) {
    if (explaining()) explain_call("ibv_create_qp", context->device->name, made.error());
    return refuse(made.error());
  }
  if (spreads(attr)) {
    if (auto ready = start_receiving(*made); !ready) return refuse(ready.error());
  }
  const bool extended = (attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  auto* qp = new (Qp::Extended{extended}) Qp(std::move(*made));
  if (qp == nullptr) return refuse(ENOMEM);
  qp->extended = extended;
  if (qp->extended) qp->batch = std::make_unique<Batch>();
  if (explaining()) qp->notebook = std::make_unique<Notebook>();
  ibv_qp& shown = qp->shown();
  shown.context = context;
  shown.qp_context = attr.qp_context;
  shown.qp_num = qp->qp.number().value;
  shown.handle = shown.qp_num;
  shown.state = IBV_QPS_RESET;
  shown.qp_type = attr.qp_type;
  pthread_mutex_init(&shown.mutex, nullptr);
  pthread_cond_init(&shown.cond, nullptr);
  qp->signal_all = parts->options.signal_all;
  if (attr.qp_type == IBV_QPT_XRC_RECV) {
    qp->xrcd = &Xrcd::of(attr.xrcd);
    // It needs none, but librdmacm reads it from there.
    if ((attr.comp_mask & IBV_QP_INIT_ATTR_PD) != 0) shown.pd = attr.pd;
  } else {
    shown.pd = attr.pd;
    shown.send_cq = attr.send_cq;
    shown.recv_cq = attr.qp_type == IBV_QPT_XRC_SEND ? nullptr : attr.recv_cq;
    shown.srq = attr.srq;
  }
  if (spreads(attr)) {
    qp->spread_over = attr.rwq_ind_tbl;
    count_table_users(qp->spread_over, 1);
  }
  const QueuePairLimits& limits = parts->options.limits;
  attr.cap = {.max_send_wr = limits.max_send_wr,
              .max_recv_wr = limits.max_recv_wr,
              .max_send_sge = limits.max_send_sge,
              .max_recv_sge = limits.max_recv_sge,
              .max_inline_data = limits.max_inline_bytes};
  qp->cap = attr.cap;
  set_posting(*qp);
  count_users(shown, qp->xrcd, 1);
  Context::of(context).qps.add(shown.qp_num, qp);
  Context::of(context).hear_of(weft::Qpn(shown.qp_num), 0);
  return qp;
}

void forget_completions(const ibv_qp& qp, queue::CompletionQueue::Forgotten what) {
  for (ibv_cq* cq : {qp.send_cq, qp.recv_cq}) {
    if (cq != nullptr) verbs::Internals::of(Cq::of(cq).cq).queue.forget(Qpn(qp.qp_num), what);
  }
}

void fill(Qp& qp, ibv_qp_attr& to) {
  const QueuePairAttributes from = qp.qp.attributes();
  to = {};
  to.qp_state = state_of(qp.qp.state());
  to.cur_qp_state = to.qp_state;
  to.path_mtu = shown_mtu(from.path_mtu);
  to.path_mig_state = IBV_MIG_MIGRATED;
  to.qkey = from.qkey.value;
  to.rq_psn = from.receive_psn.value();
  to.sq_psn = from.send_psn.value();
  to.dest_qp_num = from.remote_qpn.value;
  to.qp_access_flags = static_cast<unsigned>(from.access);
  to.cap = qp.cap;
  to.ah_attr = qp.address;
  to.pkey_index = from.pkey_index;
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.port_num = from.port;
  to.timeout = from.timeout;
  to.retry_cnt = from.retry_count;
  to.rnr_retry = from.rnr_retry;
}

}  // namespace

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  constexpr std::uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                   IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS |
                                   IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
  if ((attr->comp_mask & ~kKnown) != 0) return refuse(EOPNOTSUPP);
  const std::uint32_t base =
      attr->qp_type == IBV_QPT_XRC_RECV ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD;
  if ((attr->comp_mask & base) == 0) return refuse(EINVAL);
  if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attr->create_flags != 0) {
    return refuse(EOPNOTSUPP);
  }
  const bool hashes = (attr->comp_mask & IBV_QP_INIT_ATTR_RX_HASH) != 0;
  if (hashes != spreads(*attr) || (hashes && attr->rwq_ind_tbl == nullptr)) return refuse(EINVAL);
  const bool extended = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  if (extended && (attr->send_ops_flags & ~offered_operations(attr->qp_type)) != 0) {
    return refuse(EOPNOTSUPP);
  }
  Qp* qp = make_qp(context, *attr);
  return qp == nullptr ? nullptr : qp->plain();
}

}  // namespace weft::shim

using weft::queue::CompletionQueue;
using weft::shim::Context;
using weft::shim::Cq;
using weft::shim::is_ours;
using weft::shim::Pd;
using weft::shim::Qp;
using weft::shim::refuse;
using weft::shim::Srq;
using weft::verbs::Internals;

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  if (!is_ours(pd)) WEFT_PASS_ON(ibv_create_qp, nullptr, pd, attr);
  ibv_qp_init_attr_ex all{};
  all.qp_context = attr->qp_context;
  all.send_cq = attr->send_cq;
  all.recv_cq = attr->recv_cq;
  all.srq = attr->srq;
  all.cap = attr->cap;
  all.qp_type = attr->qp_type;
  all.sq_sig_all = attr->sq_sig_all;
  all.pd = pd;
  Qp* qp = weft::shim::make_qp(pd->context, all);
  if (qp == nullptr) return nullptr;
  attr->cap = all.cap;
  return qp->plain();
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* shown) {
  if (!is_ours(shown)) WEFT_PASS_ON(ibv_qp_to_qp_ex, nullptr, shown);
  Qp& qp = Qp::of(shown);
  return qp.extended ? &qp.shown_ex() : nullptr;
}

int ibv_modify_qp(ibv_qp* shown, ibv_qp_attr* attr, int mask) {
  if (!is_ours(shown)) WEFT_PASS_ON(ibv_modify_qp, ENOSYS, shown, attr, mask);
  Qp& qp = Qp::of(shown);
  if ((mask & weft::shim::kUnknown) != 0) return weft::shim::fail(EOPNOTSUPP);
  const weft::QpState now = qp.qp.state();
  if ((mask & IBV_QP_CUR_STATE) != 0 && weft::shim::state_of(attr->cur_qp_state) != now) {
    return weft::shim::fail(EINVAL);
  }
  const auto to = (mask & IBV_QP_STATE) != 0 ? weft::shim::state_of(attr->qp_state) : now;
  if (!to) return weft::shim::fail(EINVAL);
  int settings = mask & ~weft::shim::kNoSetting;
  settings |= weft::shim::settings_implied(shown->qp_type, settings, *to);
  const auto attributes = weft::shim::attributes_of(Context::of(shown->context), *attr, settings);
  if (!attributes) {
    if (weft::shim::explaining()) {
      weft::shim::explain_call("ibv_modify_qp", qp, attributes.error());
    }
    return weft::shim::fail(attributes.error());
  }
  const auto done = qp.qp.modify(*to, *attributes, static_cast<weft::QpAttribute>(settings));
  if (!done) {
    if (weft::shim::explaining()) weft::shim::explain_call("ibv_modify_qp", qp, done.error());
    return weft::shim::fail(done.error());
  }
  if (*to == weft::QpState::kReset) {
    weft::shim::forget_completions(*qp.plain(), CompletionQueue::Forgotten::kAll);
  }
  if ((mask & IBV_QP_AV) != 0) {
    qp.address = attr->ah_attr;
    if (weft::shim::explaining()) {
      const auto mixed = weft::shim::mixed_gids(Context::of(shown->context), attr->ah_attr);
      if (!mixed.empty()) weft::shim::remark_on_call("ibv_modify_qp", qp, mixed);
    }
  }
  // What the program sees is the state that it asked for or about, as with libibverbs: UCX
  // compares.
  if ((mask & IBV_QP_STATE) != 0) shown->state = attr->qp_state;
  return 0;
}

int ibv_query_qp(ibv_qp* shown, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) {
  if (!is_ours(shown)) WEFT_PASS_ON(ibv_query_qp, ENOSYS, shown, attr, mask, init);
  Qp& qp = Qp::of(shown);
  weft::shim::fill(qp, *attr);
  if ((mask & IBV_QP_STATE) != 0) shown->state = attr->qp_state;
  *init = {};
  init->qp_context = shown->qp_context;
  init->send_cq = shown->send_cq;
  init->recv_cq = shown->recv_cq;
  init->srq = shown->srq;
  init->cap = qp.cap;
  init->qp_type = shown->qp_type;
  init->sq_sig_all = qp.signal_all ? 1 : 0;
  return 0;
}

int ibv_destroy_qp(ibv_qp* shown) {
  if (!is_ours(shown)) WEFT_PASS_ON(ibv_destroy_qp, ENOSYS, shown);
  Qp& qp = Qp::of(shown);
  if (!weft::shim::was_last(qp)) return 0;
  Context& context = Context::of(shown->context);
  context.qps.remove(shown->qp_num);
  context.controller().events().forget(weft::Qpn(shown->qp_num), 0);
  pthread_mutex_lock(&shown->mutex);
  while (shown->events_completed != qp.errors_given) {
    pthread_cond_wait(&shown->cond, &shown->mutex);
  }
  pthread_mutex_unlock(&shown->mutex);
  pthread_mutex_destroy(&shown->mutex);
  pthread_cond_destroy(&shown->cond);
  const ibv_qp last = *shown;
  weft::shim::Xrcd* const xrcd = qp.xrcd;
  ibv_rwq_ind_table* const spread_over = qp.spread_over;
  delete &qp;
  if (spread_over != nullptr) weft::shim::count_table_users(spread_over, -1);
  // libfabric looks for what it has not fetched yet after it has destroyed a queue pair.
  weft::shim::forget_completions(last, CompletionQueue::Forgotten::kAllButDone);
  weft::shim::count_users(last, xrcd, -1);
  return 0;
}

int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
  if (!is_ours(qp)) WEFT_PASS_ON(ibv_query_ece, ENOSYS, qp, ece);
  return EOPNOTSUPP;  // no enhanced options: what librdmacm takes for "none"
}

int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  if (!is_ours(qp)) WEFT_PASS_ON(ibv_set_ece, ENOSYS, qp, ece);
  return EOPNOTSUPP;
}

int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode op, std::uint32_t flags) {
  if (!is_ours(qp)) WEFT_PASS_ON(ibv_query_qp_data_in_order, 0, qp, op, flags);
  return 0;  // the last word comes last, and no more is promised
}

}  // extern "C"

#include "shim/receive_wq.h"

#include <atomic>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "shim/errors.h"

namespace weft::shim {
namespace {

struct Wq {
  ibv_wq shown{};
  std::array<std::byte, kRoomToGrow> room{};
  verbs::SharedReceiveQueue queue;
  std::atomic<int> users{0};

  explicit Wq(verbs::SharedReceiveQueue made) : queue(std::move(made)) {}
  static Wq& of(ibv_wq* wq) { return *reinterpret_cast<Wq*>(wq); }
};

struct IndirectionTable {
  ibv_rwq_ind_table shown{};
  std::vector<Wq*> queues;
  std::atomic<int> users{0};

  static IndirectionTable& of(ibv_rwq_ind_table* table) {
    return *reinterpret_cast<IndirectionTable*>(table);
  }
};

int post_wq_recv(ibv_wq* shown, ibv_recv_wr* first, ibv_recv_wr** bad) {
  Wq& wq = Wq::of(shown);
  for (ibv_recv_wr* wr = first; wr != nullptr; wr = wr->next) {
    int error = 0;
    if (shown->state == IBV_WQS_RESET) {
      error = EINVAL;
    } else if (auto done = wq.queue.post({wr->wr_id, sges_of(wr->sg_list, wr->num_sge)}); !done) {
      error = errno_of(done.error());
    }
    if (error == 0) continue;
    *bad = wr;
    return error;
  }
  return 0;
}

wire::HashedFields fields_of(std::uint64_t mask) {
  const auto has = [mask](std::uint64_t bit) { return (mask & bit) != 0; };
  return {.ipv4_source = has(IBV_RX_HASH_SRC_IPV4),
          .ipv4_destination = has(IBV_RX_HASH_DST_IPV4),
          .ipv6_source = has(IBV_RX_HASH_SRC_IPV6),
          .ipv6_destination = has(IBV_RX_HASH_DST_IPV6),
          .tcp_source = has(IBV_RX_HASH_SRC_PORT_TCP),
          .tcp_destination = has(IBV_RX_HASH_DST_PORT_TCP),
          .udp_source = has(IBV_RX_HASH_SRC_PORT_UDP),
          .udp_destination = has(IBV_RX_HASH_DST_PORT_UDP)};
}

}  // namespace

ibv_wq* create_wq(ibv_context* context, ibv_wq_init_attr* attr) {
  if (attr->wq_type != IBV_WQT_RQ || attr->pd == nullptr || attr->cq == nullptr) {
    return refuse(EINVAL);
  }
  const bool flags = (attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS) != 0 && attr->create_flags != 0;
  if (flags || (attr->comp_mask & ~std::uint32_t{IBV_WQ_INIT_ATTR_FLAGS}) != 0) {
    return refuse(EOPNOTSUPP);
  }
  auto made = Pd::of(attr->pd).pd.create_srq(attr->max_wr, attr->max_sge);
  if (!made) return refuse(made.error());
  auto* wq = new (std::nothrow) Wq(std::move(*made));
  if (wq == nullptr) return refuse(ENOMEM);
  ibv_wq& shown = wq->shown;
  shown.context = context;
  shown.wq_context = attr->wq_context;
  shown.pd = attr->pd;
  shown.cq = attr->cq;
  shown.wq_num = wq->queue.number();
  shown.handle = shown.wq_num;
  shown.wq_type = IBV_WQT_RQ;
  shown.state = IBV_WQS_RESET;
  shown.post_recv = post_wq_recv;
  pthread_mutex_init(&shown.mutex, nullptr);
  pthread_cond_init(&shown.cond, nullptr);
  ++Pd::of(attr->pd).users;
  ++Cq::of(attr->cq).users;
  return &shown;
}

int modify_wq(ibv_wq* wq, ibv_wq_attr* attr) {
  if ((attr->attr_mask & ~std::uint32_t{IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE}) != 0) {
    return fail(EOPNOTSUPP);
  }
  if ((attr->attr_mask & IBV_WQ_ATTR_CURR_STATE) != 0 && attr->curr_wq_state != wq->state) {
    return fail(EINVAL);
  }
  if ((attr->attr_mask & IBV_WQ_ATTR_STATE) == 0) return 0;
  if (attr->wq_state > IBV_WQS_ERR) return fail(EINVAL);
  wq->state = attr->wq_state;
  return 0;
}

int destroy_wq(ibv_wq* shown) {
  Wq& wq = Wq::of(shown);
  if (wq.users.load() != 0) return fail(EBUSY);
  --Pd::of(shown->pd).users;
  --Cq::of(shown->cq).users;
  pthread_mutex_destroy(&shown->mutex);
  pthread_cond_destroy(&shown->cond);
  delete &wq;
  return 0;
}

ibv_rwq_ind_table* create_rwq_ind_table(ibv_context* context, ibv_rwq_ind_table_init_attr* attr) {
  if (attr->comp_mask != 0 || attr->log_ind_tbl_size > kMostTableBits) return refuse(EINVAL);
  auto* table = new (std::nothrow) IndirectionTable;
  if (table == nullptr) return refuse(ENOMEM);
  const std::size_t size = std::size_t{1} << attr->log_ind_tbl_size;
  for (std::size_t i = 0; i < size; ++i) {
    Wq& wq = Wq::of(attr->ind_tbl[i]);
    ++wq.users;
    table->queues.push_back(&wq);
  }
  table->shown.context = context;
  return &table->shown;
}

int destroy_rwq_ind_table(ibv_rwq_ind_table* shown) {
  IndirectionTable& table = IndirectionTable::of(shown);
  if (table.users.load() != 0) return fail(EBUSY);
  for (Wq* wq : table.queues) --wq->users;
  delete &table;
  return 0;
}

std::shared_ptr<const verbs::FanoutObject> fanout_of(ibv_rwq_ind_table* shown,
                                                     const ibv_rx_hash_conf& hash) {
  wire::ToeplitzKey key{};
  if (hash.rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ || hash.rx_hash_key == nullptr ||
      hash.rx_hash_key_len != key.size() || (hash.rx_hash_fields_mask & ~kHashedFields) != 0) {
    return nullptr;
  }
  std::memcpy(key.data(), hash.rx_hash_key, key.size());
  std::vector<verbs::FanoutObject::Member> members;
  for (Wq* wq : IndirectionTable::of(shown).queues) {
    members.push_back(
        {verbs::Internals::shared(wq->queue), verbs::Internals::shared(Cq::of(wq->shown.cq).cq)});
  }
  return std::make_shared<const verbs::FanoutObject>(std::move(members), key,
                                                     fields_of(hash.rx_hash_fields_mask));
}

const verbs::CompletionQueue& any_cq_of(ibv_rwq_ind_table* table) {
  return Cq::of(IndirectionTable::of(table).queues.front()->shown.cq).cq;
}

void count_table_users(ibv_rwq_ind_table* table, int more) {
  IndirectionTable::of(table).users += more;
}

}  // namespace weft::shim

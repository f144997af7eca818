#include "shim/qp_ex.h"

#include <cstring>

#include "shim/errors.h"
#include "shim/post.h"
#include "shim/thread_sanitizer.h"

namespace weft::shim {
namespace {

/// Begins the next request of the batch; its parts follow by further calls.
SendRequest& begin(ibv_qp_ex* shown, SendOp op) {
  Batch& batch = *Qp::of(shown).batch;
  SendRequest& request = batch.requests.emplace_back();
  batch.sge_counts.push_back(0);
  request.wr_id = shown->wr_id;
  request.op = op;
  request.flags = static_cast<SendFlags>(shown->wr_flags &
                                         (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED));
  return request;
}

SendRequest& begin_rdma(ibv_qp_ex* shown, SendOp op, std::uint32_t rkey, std::uint64_t address) {
  SendRequest& request = begin(shown, op);
  request.remote = {address, RemoteKey(rkey)};
  return request;
}

/// Null: a part came before any request.
SendRequest* last(ibv_qp_ex* shown) {
  Batch& batch = *Qp::of(shown).batch;
  if (!batch.requests.empty()) return &batch.requests.back();
  batch.error = EINVAL;
  return nullptr;
}

void add_sge(Batch& batch, std::uint64_t address, std::uint32_t length, std::uint32_t lkey) {
  batch.sges.push_back({address, length, LocalKey(lkey)});
  ++batch.sge_counts.back();
}

void set_sge_list(ibv_qp_ex* shown, std::size_t count, const ibv_sge* list) {
  if (last(shown) == nullptr) return;
  for (std::size_t i = 0; i < count; ++i) {
    add_sge(*Qp::of(shown).batch, list[i].addr, list[i].length, list[i].lkey);
  }
}

/// The program may change its bytes right after the call: they are copied now. Until the end their
/// address is a place in inline_bytes, which still grows.
void set_inline_list(ibv_qp_ex* shown, std::size_t count, const ibv_data_buf* list) {
  SendRequest* request = last(shown);
  if (request == nullptr) return;
  Batch& batch = *Qp::of(shown).batch;
  const std::size_t begun = batch.inline_bytes.size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto* bytes = static_cast<const std::byte*>(list[i].addr);
    batch.inline_bytes.insert(batch.inline_bytes.end(), bytes, bytes + list[i].length);
  }
  const std::size_t length = batch.inline_bytes.size() - begun;
  if (length > Qp::of(shown).cap.max_inline_data) batch.error = EINVAL;
  request->flags = request->flags | SendFlags::kInline;
  add_sge(batch, begun, static_cast<std::uint32_t>(length), 0);
}

void clear(Batch& batch) {
  batch.requests.clear();
  batch.sges.clear();
  batch.sge_counts.clear();
  batch.inline_bytes.clear();
  batch.error = 0;
}

/// Gives each request its list, now that nothing moves any more.
void tie(Batch& batch) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < batch.requests.size(); ++i) {
    SendRequest& request = batch.requests[i];
    const std::size_t count = batch.sge_counts[i];
    if (has(request.flags, SendFlags::kInline)) {
      for (std::size_t j = at; j < at + count; ++j) {
        batch.sges[j].address =
            reinterpret_cast<std::uint64_t>(batch.inline_bytes.data() + batch.sges[j].address);
      }
    }
    request.sges = std::span(batch.sges).subspan(at, count);
    at += count;
  }
}

void start(ibv_qp_ex* shown) {
  Qp& qp = Qp::of(shown);
  qp.batch->mutex.lock();
  clear(*qp.batch);
}

/// All or nothing: a batch is refused before any of it is posted where that can be known.
int complete(ibv_qp_ex* shown) {
  Qp& qp = Qp::of(shown);
  Batch& batch = *qp.batch;
  tie(batch);
  int error = batch.error;
  if (error == 0) {
    if (explaining()) [[unlikely]] {
      for (const SendRequest& request : batch.requests) note(qp, request);
    }
    std::size_t posted = 0;
    const auto done = qp.qp.post_send(batch.requests, &posted);
    if (!done) {
      error = errno_of(done.error());
      if (explaining()) explain_call("ibv_wr_complete", qp, done.error());
    }
  }
  batch.mutex.unlock();
  return error;
}

void unknown(ibv_qp_ex* shown) { Qp::of(shown).batch->error = EOPNOTSUPP; }

}  // namespace

std::uint64_t offered_operations(ibv_qp_type type) {
  constexpr std::uint64_t kDatagram = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  constexpr std::uint64_t kUnreliable =
      kDatagram | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
      IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV;
  constexpr std::uint64_t kReliable =
      kUnreliable | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
      IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_WRITE;
  switch (type) {
    case IBV_QPT_RC:
    case IBV_QPT_XRC_SEND:
      return kReliable;
    case IBV_QPT_UC:
      return kUnreliable;
    case IBV_QPT_UD:
      return kDatagram;
    case IBV_QPT_RAW_PACKET:
      return IBV_QP_EX_WITH_SEND;
    default:
      return 0;
  }
}

void set_posting(Qp& qp) {
  if (!qp.extended) return;
  ibv_qp_ex& shown = qp.shown_ex();
  shown.wr_start = start;
  shown.wr_complete = complete;
  tell_thread_sanitizer(shown);
  shown.wr_abort = [](ibv_qp_ex* at) { Qp::of(at).batch->mutex.unlock(); };
  shown.wr_atomic_cmp_swp = [](ibv_qp_ex* at, std::uint32_t rkey, std::uint64_t address,
                               std::uint64_t compare, std::uint64_t swap) {
    SendRequest& request = begin_rdma(at, SendOp::kCompareSwap, rkey, address);
    request.compare = compare;
    request.operand = swap;
  };
  shown.wr_atomic_fetch_add = [](ibv_qp_ex* at, std::uint32_t rkey, std::uint64_t address,
                                 std::uint64_t add) {
    begin_rdma(at, SendOp::kFetchAdd, rkey, address).operand = add;
  };
  shown.wr_bind_mw = [](ibv_qp_ex* at, ibv_mw* mw, std::uint32_t rkey,
                        const ibv_mw_bind_info* info) {
    SendRequest& request = begin(at, SendOp::kBind);
    request.bind = bind_request(Mw::of(mw), RemoteKey(rkey), *info).bind;
    verbs::Internals::set_key(*Mw::of(mw).window, RemoteKey(rkey));
  };
  shown.wr_local_inv = [](ibv_qp_ex* at, std::uint32_t rkey) {
    begin(at, SendOp::kLocalInvalidate).invalidate_key = RemoteKey(rkey);
  };
  shown.wr_rdma_read = [](ibv_qp_ex* at, std::uint32_t rkey, std::uint64_t address) {
    begin_rdma(at, SendOp::kRead, rkey, address);
  };
  shown.wr_rdma_write = [](ibv_qp_ex* at, std::uint32_t rkey, std::uint64_t address) {
    begin_rdma(at, SendOp::kWrite, rkey, address);
  };
  shown.wr_rdma_write_imm = [](ibv_qp_ex* at, std::uint32_t rkey, std::uint64_t address,
                               __be32 immediate) {
    begin_rdma(at, SendOp::kWriteImmediate, rkey, address).immediate = be32toh(immediate);
  };
  shown.wr_send = [](ibv_qp_ex* at) { begin(at, SendOp::kSend); };
  shown.wr_send_imm = [](ibv_qp_ex* at, __be32 immediate) {
    begin(at, SendOp::kSendImmediate).immediate = be32toh(immediate);
  };
  shown.wr_send_inv = [](ibv_qp_ex* at, std::uint32_t rkey) {
    begin(at, SendOp::kSendInvalidate).invalidate_key = RemoteKey(rkey);
  };
  shown.wr_send_tso = [](ibv_qp_ex* at, void*, std::uint16_t, std::uint16_t) { unknown(at); };
  shown.wr_set_ud_addr = [](ibv_qp_ex* at, ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) {
    SendRequest* request = last(at);
    if (request == nullptr) return;
    request->destination = Ah::of(ah).vector;
    request->destination_qpn = Qpn(qpn);
    request->destination_qkey = QKey(qkey);
  };
  shown.wr_set_xrc_srqn = [](ibv_qp_ex* at, std::uint32_t srqn) {
    if (SendRequest* request = last(at)) request->remote_srq = SrqNumber(srqn);
  };
  shown.wr_set_inline_data = [](ibv_qp_ex* at, void* bytes, std::size_t length) {
    const ibv_data_buf one{bytes, length};
    set_inline_list(at, 1, &one);
  };
  shown.wr_set_inline_data_list = set_inline_list;
  shown.wr_set_sge = [](ibv_qp_ex* at, std::uint32_t lkey, std::uint64_t address,
                        std::uint32_t length) {
    const ibv_sge one{address, length, lkey};
    set_sge_list(at, 1, &one);
  };
  shown.wr_set_sge_list = set_sge_list;
  shown.wr_atomic_write = [](ibv_qp_ex* at, std::uint32_t rkey, std::uint64_t address,
                             const void* value) {
    std::memcpy(&begin_rdma(at, SendOp::kAtomicWrite, rkey, address).operand, value, 8);
  };
}

}  // namespace weft::shim

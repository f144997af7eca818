#include "shim/post.h"

#include "memory/key_table.h"
#include "shim/errors.h"

namespace weft::shim {
namespace {

constexpr unsigned kKnownFlags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

/// False: an operation that weft does not know.
bool convert(const ibv_send_wr& from, ibv_qp_type type, SendRequest& to) {
  to.wr_id = from.wr_id;
  to.flags = static_cast<SendFlags>(from.send_flags & kKnownFlags);
  to.sges = sges_of(from.sg_list, from.num_sge);
  if (type == IBV_QPT_XRC_SEND) [[unlikely]]
    to.remote_srq = SrqNumber(from.qp_type.xrc.remote_srqn);
  switch (from.opcode) {
    case IBV_WR_RDMA_WRITE:
      to.op = SendOp::kWrite;
      break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      to.op = SendOp::kWriteImmediate;
      to.immediate = be32toh(from.imm_data);
      break;
    case IBV_WR_RDMA_READ:
      to.op = SendOp::kRead;
      break;
    case IBV_WR_SEND:
      to.op = SendOp::kSend;
      break;
    case IBV_WR_SEND_WITH_IMM:
      to.op = SendOp::kSendImmediate;
      to.immediate = be32toh(from.imm_data);
      break;
    case IBV_WR_SEND_WITH_INV:
      to.op = SendOp::kSendInvalidate;
      to.invalidate_key = RemoteKey(from.invalidate_rkey);
      break;
    case IBV_WR_LOCAL_INV:
      to.op = SendOp::kLocalInvalidate;
      to.invalidate_key = RemoteKey(from.invalidate_rkey);
      return true;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      to.op = SendOp::kCompareSwap;
      to.remote = {from.wr.atomic.remote_addr, RemoteKey(from.wr.atomic.rkey)};
      to.compare = from.wr.atomic.compare_add;
      to.operand = from.wr.atomic.swap;
      return true;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      to.op = SendOp::kFetchAdd;
      to.remote = {from.wr.atomic.remote_addr, RemoteKey(from.wr.atomic.rkey)};
      to.operand = from.wr.atomic.compare_add;
      return true;
    case IBV_WR_BIND_MW: {
      const SendRequest bind = bind_request(Mw::of(from.bind_mw.mw), RemoteKey(from.bind_mw.rkey),
                                            from.bind_mw.bind_info);
      to.op = SendOp::kBind;
      to.bind = bind.bind;
      to.sges = {};
      return true;
    }
    default:
      return false;
  }
  if (type == IBV_QPT_UD) {
    if (from.wr.ud.ah == nullptr) return false;
    to.destination = Ah::of(from.wr.ud.ah).vector;
    to.destination_qpn = Qpn(from.wr.ud.remote_qpn);
    to.destination_qkey = QKey(from.wr.ud.remote_qkey);
  } else {
    to.remote = {from.wr.rdma.remote_addr, RemoteKey(from.wr.rdma.rkey)};
  }
  return true;
}

void took(const ibv_send_wr& wr) {
  if (wr.opcode == IBV_WR_BIND_MW) [[unlikely]] {
    verbs::Internals::set_key(*Mw::of(wr.bind_mw.mw).window, RemoteKey(wr.bind_mw.rkey));
  }
}

/// A write of one element, the most frequent request: all else in it stays as it was made, so that
/// a post sets what a write has and no more.
[[gnu::tls_model("initial-exec")]] constinit thread_local SendRequest a_write{.op = SendOp::kWrite};

/// False: it is none, or has to take the general path.
bool fast_write(const Qp& qp, const ibv_send_wr& wr) {
  if (wr.opcode != IBV_WR_RDMA_WRITE || wr.num_sge != 1 || wr.next != nullptr ||
      qp.shown().qp_type != IBV_QPT_RC || qp.notebook != nullptr) {
    return false;
  }
  SendRequest& request = a_write;
  request.wr_id = wr.wr_id;
  request.flags = static_cast<SendFlags>(wr.send_flags & kKnownFlags);
  request.sges = sges_of(wr.sg_list, 1);
  request.remote = {wr.wr.rdma.remote_addr, RemoteKey(wr.wr.rdma.rkey)};
  return verbs::Internals::fast_post(qp.qp, request);
}

/// One after the other: `bad` is exact, and each is on its way before the next is looked at.
int post_one_by_one(Qp& qp, ibv_send_wr* first, ibv_send_wr** bad) {
  for (ibv_send_wr* wr = first; wr != nullptr; wr = wr->next) {
    SendRequest request;
    int error = EINVAL;
    if (convert(*wr, qp.shown().qp_type, request)) {
      if (explaining()) [[unlikely]]
        note(qp, request);
      const auto done = qp.qp.post_send(request);
      if (done) {
        took(*wr);
        continue;
      }
      error = errno_of(done.error());
      if (explaining()) explain_call("ibv_post_send", qp, done.error());
    }
    *bad = wr;
    return error;
  }
  return 0;
}

}  // namespace

SendRequest bind_request(Mw& mw, RemoteKey new_key, const ibv_mw_bind_info& info) {
  SendRequest request;
  request.op = SendOp::kBind;
  request.bind.window = mw.window->rkey();
  request.bind.new_tag = static_cast<std::uint8_t>(new_key.value);
  request.bind.region = LocalKey(info.mr != nullptr ? info.mr->lkey : 0);
  request.bind.address = info.addr;
  request.bind.length = info.length;
  request.bind.access = static_cast<Access>(info.mw_access_flags);
  return request;
}

int post_send(ibv_qp* shown, ibv_send_wr* first, ibv_send_wr** bad) {
  Qp& qp = Qp::of(shown);
  if (first != nullptr && fast_write(qp, *first)) return 0;
  return post_one_by_one(qp, first, bad);
}

int post_recv(ibv_qp* shown, ibv_recv_wr* first, ibv_recv_wr** bad) {
  Qp& qp = Qp::of(shown);
  for (ibv_recv_wr* wr = first; wr != nullptr; wr = wr->next) {
    const ReceiveRequest request{wr->wr_id, sges_of(wr->sg_list, wr->num_sge)};
    if (explaining()) [[unlikely]]
      note(qp, request);
    const auto done = qp.qp.post_receive(request);
    if (!done) {
      if (explaining()) explain_call("ibv_post_recv", qp, done.error());
      *bad = wr;
      return errno_of(done.error());
    }
  }
  return 0;
}

int bind_mw(ibv_qp* qp, ibv_mw* shown, ibv_mw_bind* bind) {
  if (shown->type != IBV_MW_TYPE_1) return EINVAL;
  if (bind->bind_info.length != 0 &&
      (bind->bind_info.mr == nullptr || bind->bind_info.mr->pd != shown->pd)) {
    return EPERM;
  }
  Mw& mw = Mw::of(shown);
  const RemoteKey next = memory::KeyTable::next_key(mw.window->rkey());
  SendRequest request = bind_request(mw, next, bind->bind_info);
  request.wr_id = bind->wr_id;
  request.flags = static_cast<SendFlags>(bind->send_flags & kKnownFlags);
  const auto done = Qp::of(qp).qp.post_send(request);
  if (!done) return errno_of(done.error());
  verbs::Internals::set_key(*mw.window, next);
  shown->rkey = next.value;
  return 0;
}

}  // namespace weft::shim

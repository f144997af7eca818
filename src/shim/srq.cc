#include "shim/srq.h"

#include <algorithm>
#include <new>

#include "shim/errors.h"
#include "shim/real.h"

namespace weft::shim {
namespace {

/// What the other attributes of an extended connection's queue name.
struct Extended {
  Xrcd* xrcd = nullptr;
  Cq* cq = nullptr;
};

Srq* make_srq(ibv_pd* pd, void* owner, ibv_srq_attr& attr, const Extended& extended = {}) {
  const std::uint32_t max_sge = std::max(1u, attr.max_sge);
  const verbs::ProtectionDomain& domain = Pd::of(pd).pd;
  auto made =
      extended.xrcd != nullptr
          ? domain.create_xrc_srq(extended.xrcd->domain, extended.cq->cq, attr.max_wr, max_sge)
          : domain.create_srq(attr.max_wr, max_sge);
  if (!made) return refuse(made.error());
  auto* srq = new (std::nothrow) Srq(std::move(*made));
  if (srq == nullptr) return refuse(ENOMEM);
  attr.max_sge = max_sge;
  srq->limits = attr;
  srq->limits.srq_limit = 0;  // armed by modify alone
  srq->xrcd = extended.xrcd;
  srq->cq = extended.cq;
  srq->shown.context = pd->context;
  srq->shown.srq_context = owner;
  srq->shown.pd = pd;
  srq->shown.handle = srq->srq.number();
  pthread_mutex_init(&srq->shown.mutex, nullptr);
  pthread_cond_init(&srq->shown.cond, nullptr);
  ++Pd::of(pd).users;
  if (srq->xrcd != nullptr) ++srq->xrcd->users;
  if (srq->cq != nullptr) ++srq->cq->users;
  Context::of(pd->context).srqs.add(srq->srq.number(), srq);
  Context::of(pd->context).hear_of(weft::Qpn(), srq->srq.number());
  return srq;
}

}  // namespace

int post_srq_recv(ibv_srq* shown, ibv_recv_wr* first, ibv_recv_wr** bad) {
  Srq& srq = Srq::of(shown);
  for (ibv_recv_wr* wr = first; wr != nullptr; wr = wr->next) {
    const auto done = srq.srq.post({wr->wr_id, sges_of(wr->sg_list, wr->num_sge)});
    if (!done) {
      *bad = wr;
      return errno_of(done.error());
    }
  }
  return 0;
}

ibv_srq* create_srq_ex(ibv_context*, ibv_srq_init_attr_ex* attr) {
  constexpr std::uint32_t kExtended = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  constexpr std::uint32_t kKnown = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | kExtended;
  if ((attr->comp_mask & ~kKnown) != 0) return refuse(EOPNOTSUPP);
  if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr->pd == nullptr) return refuse(EINVAL);
  const auto type =
      (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 ? attr->srq_type : IBV_SRQT_BASIC;
  if (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC) return refuse(EOPNOTSUPP);
  Extended extended;
  if (type == IBV_SRQT_XRC) {
    if ((attr->comp_mask & kExtended) != kExtended || attr->xrcd == nullptr ||
        attr->cq == nullptr) {
      return refuse(EINVAL);
    }
    extended = {&Xrcd::of(attr->xrcd), &Cq::of(attr->cq)};
  }
  Srq* srq = make_srq(attr->pd, attr->srq_context, attr->attr, extended);
  return srq != nullptr ? &srq->shown : nullptr;
}

int get_srq_num(ibv_srq* srq, std::uint32_t* number) {
  *number = Srq::of(srq).srq.number();
  return 0;
}

}  // namespace weft::shim

using weft::shim::Context;
using weft::shim::is_ours;
using weft::shim::Pd;
using weft::shim::Srq;

extern "C" {

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  if (!is_ours(pd)) WEFT_PASS_ON(ibv_create_srq, nullptr, pd, attr);
  Srq* srq = weft::shim::make_srq(pd, attr->srq_context, attr->attr);
  return srq != nullptr ? &srq->shown : nullptr;
}

int ibv_modify_srq(ibv_srq* shown, ibv_srq_attr* attr, int mask) {
  if (!is_ours(shown)) WEFT_PASS_ON(ibv_modify_srq, ENOSYS, shown, attr, mask);
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) return weft::shim::fail(EINVAL);
  if ((mask & IBV_SRQ_MAX_WR) != 0) return weft::shim::fail(EOPNOTSUPP);  // not advertised
  Srq& srq = Srq::of(shown);
  if ((mask & IBV_SRQ_LIMIT) != 0) {
    const auto done = srq.srq.arm_limit(attr->srq_limit);
    if (!done) return weft::shim::fail(done.error());
    srq.limits.srq_limit = attr->srq_limit;
  }
  return 0;
}

int ibv_query_srq(ibv_srq* shown, ibv_srq_attr* attr) {
  if (!is_ours(shown)) WEFT_PASS_ON(ibv_query_srq, ENOSYS, shown, attr);
  *attr = Srq::of(shown).limits;
  return 0;
}

int ibv_destroy_srq(ibv_srq* shown) {
  if (!is_ours(shown)) WEFT_PASS_ON(ibv_destroy_srq, ENOSYS, shown);
  Srq& srq = Srq::of(shown);
  if (srq.users.load() != 0) return weft::shim::fail(EBUSY);
  Context& context = Context::of(shown->context);
  context.srqs.remove(srq.srq.number());
  context.controller().events().forget(weft::Qpn(), srq.srq.number());
  pthread_mutex_lock(&shown->mutex);
  while (shown->events_completed != srq.errors_given) {
    pthread_cond_wait(&shown->cond, &shown->mutex);
  }
  pthread_mutex_unlock(&shown->mutex);
  pthread_mutex_destroy(&shown->mutex);
  pthread_cond_destroy(&shown->cond);
  --Pd::of(shown->pd).users;
  if (srq.xrcd != nullptr) --srq.xrcd->users;
  if (srq.cq != nullptr) --srq.cq->users;
  delete &srq;
  return 0;
}

}  // extern "C"

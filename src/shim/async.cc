// Asynchronous events: weft's numbers become the program's objects.
#include <cerrno>

#include "shim/errors.h"
#include "shim/objects.h"
#include "shim/real.h"

namespace weft::shim {
namespace {

ibv_event_type type_of(verbs::AsyncEventKind kind) {
  using Kind = verbs::AsyncEventKind;
  switch (kind) {
    case Kind::kQueuePairRequestError:
      return IBV_EVENT_QP_REQ_ERR;
    case Kind::kQueuePairAccessError:
      return IBV_EVENT_QP_ACCESS_ERR;
    case Kind::kCommunicationEstablished:
      return IBV_EVENT_COMM_EST;
    case Kind::kSendQueueDrained:
      return IBV_EVENT_SQ_DRAINED;
    case Kind::kLastReceiveReached:
      return IBV_EVENT_QP_LAST_WQE_REACHED;
    case Kind::kSharedReceiveLimitReached:
      return IBV_EVENT_SRQ_LIMIT_REACHED;
    case Kind::kCompletionQueueOverrun:
      return IBV_EVENT_CQ_ERR;
    case Kind::kUnmappedPage:
      break;  // programs are no consumers of kernel kind
  }
  return IBV_EVENT_DEVICE_FATAL;
}

template <class Shown>
void count(Shown& shown, std::uint32_t& given) {
  pthread_mutex_lock(&shown.mutex);
  ++given;
  pthread_mutex_unlock(&shown.mutex);
}

template <class Shown>
void acknowledge(Shown& shown, std::uint32_t& completed) {
  pthread_mutex_lock(&shown.mutex);
  ++completed;
  pthread_cond_signal(&shown.cond);
  pthread_mutex_unlock(&shown.mutex);
}

/// False: the object is gone, and nobody needs to know any more.
bool translate(Context& context, const verbs::AsyncEvent& from, ibv_async_event& to) {
  to = {};
  to.event_type = type_of(from.kind);
  switch (to.event_type) {
    case IBV_EVENT_CQ_ERR:
      return context.cqs.with(from.number, [&](Cq& cq) {
        to.element.cq = cq.plain();
        count(cq.shown, cq.errors_given);
      });
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return context.srqs.with(from.number, [&](Srq& srq) {
        to.element.srq = &srq.shown;
        count(srq.shown, srq.errors_given);
      });
    default:
      return context.qps.with(from.qpn.value, [&](Qp& qp) {
        to.element.qp = qp.plain();
        count(*qp.plain(), qp.errors_given);
      });
  }
}

}  // namespace
}  // namespace weft::shim

using weft::shim::Context;
using weft::shim::is_ours;

extern "C" {

int ibv_get_async_event(ibv_context* shown, ibv_async_event* event) {
  if (!is_ours(shown)) WEFT_PASS_ON(ibv_get_async_event, -1, shown, event);
  Context& context = Context::of(shown);
  // In a child after fork the events are the parent's.
  int error = context.controller().inherited() ? ENODEV : 0;
  while (error == 0) {
    const std::uint32_t seen = context.events->seen();
    if (const auto got = context.events->next()) {
      if (weft::shim::translate(context, *got, *event)) return 0;
    } else {
      error = context.events->wait(seen);  // the program's own way of waiting, or of not waiting
    }
  }
  errno = error;
  return -1;
}

void ibv_ack_async_event(ibv_async_event* event) {
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR: {
      ibv_cq* cq = event->element.cq;
      if (!is_ours(cq)) break;
      return weft::shim::acknowledge(*cq, cq->async_events_completed);
    }
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: {
      ibv_srq* srq = event->element.srq;
      if (!is_ours(srq)) break;
      return weft::shim::acknowledge(*srq, srq->events_completed);
    }
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED: {
      ibv_qp* qp = event->element.qp;
      if (!is_ours(qp)) break;
      return weft::shim::acknowledge(*qp, qp->events_completed);
    }
    default:
      break;
  }
  WEFT_PASS_ON(ibv_ack_async_event, void(), event);
}

}  // extern "C"

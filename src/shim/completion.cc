#include "shim/completion.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "host/readable_wait.h"
#include "shim/errors.h"
#include "shim/real.h"

namespace weft::shim {
namespace {

constexpr std::uint64_t kOfferedFields =
    IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP |
    IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL | IBV_WC_EX_WITH_DLID_PATH_BITS |
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

/// Bit 3: a UDP header came along; then what came before it, 1 for IPv6, 2 for IPv4. mlx5 devices
/// tell it in the service level of a completion, and UCX believes it.
std::uint8_t datagram_sl(const files::ShownDevice& device) {
  if (device.link_layer == files::LinkLayer::kInfiniBand) return 0;
  return device.address.is_ipv4() ? 0xA : 0x9;
}

void convert(const Cq& cq, const Completion& from, ibv_wc& to) {
  to.wr_id = from.wr_id;
  to.status = static_cast<ibv_wc_status>(from.status);
  to.opcode = opcode_of(from.op);
  to.vendor_err = 0;
  to.byte_len = from.byte_count;
  if (from.has_invalidate) {
    to.invalidated_rkey = from.invalidated_key.value;
  } else {
    to.imm_data = htobe32(from.immediate);
  }
  to.qp_num = from.qpn.value;
  to.src_qp = from.source_qp.value;
  to.wc_flags = flags_of(from);
  to.pkey_index = 0;
  to.slid = 0;
  to.sl = sl_of(cq, from);
  to.dlid_path_bits = 0;
}

Cq* make_cq(ibv_context* shown, std::uint32_t entries, void* owner, ibv_comp_channel* channel,
            std::uint32_t vector) {
  Context& context = Context::of(shown);
  if (entries == 0 || vector >= static_cast<std::uint32_t>(shown->num_comp_vectors)) {
    return refuse(EINVAL);
  }
  auto made = channel != nullptr ? context.device.create_cq(entries, Channel::of(channel).channel)
                                 : context.device.create_cq(entries);
  if (!made) return refuse(made.error());
  auto* cq = new (std::nothrow) Cq(std::move(*made));
  if (cq == nullptr) return refuse(ENOMEM);
  cq->datagram_sl = datagram_sl(context.weft());
  cq->shown.context = shown;
  cq->shown.channel = channel;
  cq->shown.cq_context = owner;
  cq->shown.handle = cq->cq.number();
  cq->shown.cqe = static_cast<int>(entries);
  pthread_mutex_init(&cq->shown.mutex, nullptr);
  pthread_cond_init(&cq->shown.cond, nullptr);
  if (channel != nullptr) ++Channel::of(channel).users;
  context.cqs.add(cq->cq.number(), cq);
  context.hear_of(weft::Qpn(), cq->cq.number());
  return cq;
}

void wait_for_acknowledgement(Cq& cq) {
  pthread_mutex_lock(&cq.shown.mutex);
  while (cq.shown.comp_events_completed != cq.events_given ||
         cq.shown.async_events_completed != cq.errors_given) {
    pthread_cond_wait(&cq.shown.cond, &cq.shown.mutex);
  }
  pthread_mutex_unlock(&cq.shown.mutex);
}

}  // namespace

ibv_wc completion_of(const Cq& cq, const Completion& completion) {
  ibv_wc wc;
  convert(cq, completion, wc);
  return wc;
}

int poll_cq(ibv_cq* shown, int most, ibv_wc* out) {
  if (most <= 0) return 0;
  Cq& cq = Cq::of(shown);
  verbs::CqObject& object = verbs::Internals::of(cq.cq);
  if (object.queue.empty()) {
    Completion received;
    if (object.controller->receive(object.queue, &received)) {
      convert(cq, received, *out);
      return 1;
    }
    object.controller->poll();
    if (object.queue.empty()) return 0;
  }
  ibv_wc* at = out;
  bool failed = false;
  const std::size_t n =
      object.queue.take_each(static_cast<std::size_t>(most), [&](const Completion& completion) {
        failed |= !completion.ok();
        convert(cq, completion, *at++);
      });
  if (failed && explaining()) [[unlikely]] {
    for (std::size_t i = 0; i < n; ++i) {
      if (out[i].status != IBV_WC_SUCCESS) explain_completion(Context::of(shown->context), out[i]);
    }
  }
  return static_cast<int>(n);
}

int req_notify_cq(ibv_cq* shown, int solicited_only) {
  Cq::of(shown).cq.request_notify(solicited_only != 0);
  return 0;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  constexpr std::uint32_t kKnownMask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  constexpr std::uint32_t kKnownFlags =
      IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  if ((attr->comp_mask & ~kKnownMask) != 0) return refuse(EINVAL);
  if ((attr->wc_flags & ~kOfferedFields) != 0) return refuse(EOPNOTSUPP);
  const std::uint32_t flags =
      (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attr->flags : 0;
  if ((flags & ~kKnownFlags) != 0) return refuse(EOPNOTSUPP);
  const bool has_parent = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0;
  if (has_parent && (attr->parent_domain == nullptr || !Pd::of(attr->parent_domain).original)) {
    return refuse(EINVAL);
  }
  Cq* cq = make_cq(context, attr->cqe, attr->cq_context, attr->channel, attr->comp_vector);
  if (cq == nullptr) return nullptr;
  cq->stamps = (attr->wc_flags & (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)) != 0;
  if ((flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0) {
    verbs::Internals::of(cq->cq).queue.ignore_overrun();
  }
  if (has_parent) {
    cq->parent = Pd::of(attr->parent_domain).state;
    ++cq->parent->users;
  }
  set_polling(*cq);
  return &cq->shown;
}

}  // namespace weft::shim

using weft::shim::Channel;
using weft::shim::Context;
using weft::shim::Cq;
using weft::shim::is_ours;
using weft::shim::refuse;
using weft::verbs::Internals;

extern "C" {

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  if (!is_ours(context)) WEFT_PASS_ON(ibv_create_comp_channel, nullptr, context);
  auto made = Context::of(context).device.create_channel();
  if (!made) return refuse(made.error());
  // Programs make it non-blocking themselves, if they want that.
  fcntl(made->fd(), F_SETFL, fcntl(made->fd(), F_GETFL) & ~O_NONBLOCK);
  auto* channel = new (std::nothrow) Channel(std::move(*made));
  if (channel == nullptr) return refuse(ENOMEM);
  channel->shown.context = context;
  channel->shown.fd = channel->channel.fd();
  return &channel->shown;
}

int ibv_destroy_comp_channel(ibv_comp_channel* shown) {
  if (!is_ours(shown)) WEFT_PASS_ON(ibv_destroy_comp_channel, ENOSYS, shown);
  Channel& channel = Channel::of(shown);
  if (channel.users.load() != 0) return weft::shim::fail(EBUSY);
  delete &channel;
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* owner, ibv_comp_channel* channel,
                      int vector) {
  if (!is_ours(context)) {
    WEFT_PASS_ON(ibv_create_cq, nullptr, context, entries, owner, channel, vector);
  }
  if (entries <= 0 || vector < 0) return refuse(EINVAL);
  Cq* cq = weft::shim::make_cq(context, static_cast<std::uint32_t>(entries), owner, channel,
                               static_cast<std::uint32_t>(vector));
  return cq != nullptr ? cq->plain() : nullptr;
}

int ibv_resize_cq(ibv_cq* shown, int entries) {
  if (!is_ours(shown)) WEFT_PASS_ON(ibv_resize_cq, ENOSYS, shown, entries);
  if (entries <= 0) return weft::shim::fail(EINVAL);
  const auto done = Cq::of(shown).cq.resize(static_cast<std::uint32_t>(entries));
  if (!done) return weft::shim::fail(done.error());
  shown->cqe = entries;
  return 0;
}

int ibv_destroy_cq(ibv_cq* shown) {
  if (!is_ours(shown)) WEFT_PASS_ON(ibv_destroy_cq, ENOSYS, shown);
  Cq& cq = Cq::of(shown);
  if (cq.users.load() != 0) return weft::shim::fail(EBUSY);
  Context& context = Context::of(shown->context);
  context.cqs.remove(cq.cq.number());
  context.controller().events().forget(weft::Qpn(), cq.cq.number());
  if (shown->channel != nullptr) {
    Channel& channel = Channel::of(shown->channel);
    Internals::of(channel.channel).forget(cq.cq.number());
    --channel.users;
  }
  weft::shim::wait_for_acknowledgement(cq);
  pthread_mutex_destroy(&cq.shown.mutex);
  pthread_cond_destroy(&cq.shown.cond);
  if (cq.parent != nullptr) --cq.parent->users;
  delete &cq;
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* shown, ibv_cq** cq, void** owner) {
  if (!is_ours(shown)) WEFT_PASS_ON(ibv_get_cq_event, -1, shown, cq, owner);
  Channel& channel = Channel::of(shown);
  Context& context = Context::of(shown->context);
  weft::verbs::CompChannelObject& object = Internals::of(channel.channel);
  // In a child after fork the events are the parent's.
  int error = context.controller().inherited() ? ENODEV : 0;
  bool waited = false;
  const weft::host::OnlyWaitIsCancelled shield;
  while (error == 0) {
    const auto number = object.pop();
    if (!number) {
      waited = true;
      error = context.controller().waiting().wait(object);
      continue;
    }
    if (!waited) object.count_found();
    const bool found = context.cqs.with(*number, [&](Cq& got) {
      pthread_mutex_lock(&got.shown.mutex);
      ++got.events_given;
      pthread_mutex_unlock(&got.shown.mutex);
      *cq = got.plain();
      *owner = got.shown.cq_context;
    });
    if (found) return 0;  // else its queue was destroyed
  }
  errno = error;
  return -1;
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned int events) {
  if (!is_ours(cq)) WEFT_PASS_ON(ibv_ack_cq_events, void(), cq, events);
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += events;
  pthread_cond_signal(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}

}  // extern "C"

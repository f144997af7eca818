#include "queue/queue_pair.h"

#include <fmt/format.h>

#include "memory/copy.h"

namespace weft::queue {
namespace {

// Which operations a service offers (InfiniBand 1.4, table 38, and the seed's delay).
constexpr std::uint32_t bit(SendOp op) { return 1u << static_cast<unsigned>(op); }
constexpr std::uint32_t kAnywhere = bit(SendOp::kDelay);
constexpr std::uint32_t kDatagramOps = kAnywhere | bit(SendOp::kSend) | bit(SendOp::kSendImmediate);
constexpr std::uint32_t kUnreliableOps = kDatagramOps | bit(SendOp::kWrite) |
                                         bit(SendOp::kWriteImmediate) | bit(SendOp::kBind) |
                                         bit(SendOp::kLocalInvalidate);
constexpr std::uint32_t kReliableOps = kUnreliableOps | bit(SendOp::kSendInvalidate) |
                                       bit(SendOp::kRead) | bit(SendOp::kCompareSwap) |
                                       bit(SendOp::kFetchAdd) | bit(SendOp::kAtomicWrite);
// The reliable datagram has no opcode for an invalidation, nor for an atomic write.
constexpr std::uint32_t kReliableDatagramOps =
    kReliableOps & ~(bit(SendOp::kSendInvalidate) | bit(SendOp::kAtomicWrite));

constexpr Nanoseconds kMaxDelay_ns = 3'600'000'000'000;

constexpr std::uint32_t kRawOps = kAnywhere | bit(SendOp::kSend);

constexpr std::uint32_t kOpsOf[] = {kReliableOps, kUnreliableOps, kDatagramOps,
                                    kReliableDatagramOps, kRawOps};

/// In what neighbours see, beside the service.
constexpr unsigned kExtendedTarget = 0x10;

constexpr CompletionOp completion_op(SendOp op) {
  switch (op) {
    case SendOp::kSend:
    case SendOp::kSendImmediate:
    case SendOp::kSendInvalidate:
      return CompletionOp::kSend;
    case SendOp::kWrite:
    case SendOp::kWriteImmediate:
      return CompletionOp::kWrite;
    case SendOp::kRead:
      return CompletionOp::kRead;
    case SendOp::kCompareSwap:
      return CompletionOp::kCompareSwap;
    case SendOp::kFetchAdd:
      return CompletionOp::kFetchAdd;
    case SendOp::kAtomicWrite:
      return CompletionOp::kAtomicWrite;
    case SendOp::kBind:
      return CompletionOp::kBind;
    case SendOp::kLocalInvalidate:
      return CompletionOp::kLocalInvalidate;
    case SendOp::kDelay:
      return CompletionOp::kDelay;
  }
  return CompletionOp::kSend;
}

constexpr bool is_atomic(SendOp op) {
  return op >= SendOp::kCompareSwap && op <= SendOp::kAtomicWrite;
}
/// Bytes of an atomic's list: what was there before, which a write does not ask for.
constexpr std::uint32_t atomic_bytes(SendOp op) { return op == SendOp::kAtomicWrite ? 0 : 8; }

[[gnu::cold, gnu::noinline]] tl::unexpected<Error> refuse_send(const QueuePair& qp,
                                                               const SendRequest& request,
                                                               std::uint64_t length) {
  const SendQueue& sq = qp.sq;
  if ((kOpsOf[static_cast<int>(qp.service)] & bit(request.op)) == 0) {
    return fail(Errc::kNotSupported, fmt::format("op: the {} service has no {}",
                                                 to_string(qp.service), to_string(request.op)));
  }
  if (request.sges.size() > sq.max_sge() && !has(request.flags, SendFlags::kInline)) {
    return fail(Errc::kInvalidArgument,
                fmt::format("sges: {} elements, but the queue pair was created with at most {}",
                            request.sges.size(), sq.max_sge()));
  }
  if (has(request.flags, SendFlags::kInline) &&
      (request.op == SendOp::kRead || request.op >= SendOp::kCompareSwap)) {
    return fail(Errc::kInvalidArgument,
                fmt::format("flags: inline data goes with send and write, not with {}",
                            to_string(request.op)));
  }
  if (has(request.flags, SendFlags::kInline) && length > sq.max_inline()) {
    return fail(Errc::kInvalidArgument,
                fmt::format("sges: {} bytes inline, but the queue pair was created with at most {}",
                            length, sq.max_inline()));
  }
  if (length > kMaxMessageBytes) {
    return fail(Errc::kInvalidArgument, fmt::format("sges: {} bytes, but a message has at most {}",
                                                    length, kMaxMessageBytes));
  }
  if (qp.service == Service::kUnreliableDatagram && length > bytes(qp.attributes.path_mtu)) {
    return fail(Errc::kInvalidArgument,
                fmt::format("sges: {} bytes, but a datagram has at most {} (the path MTU)", length,
                            bytes(qp.attributes.path_mtu)));
  }
  if (is_atomic(request.op) && length != atomic_bytes(request.op)) {
    return fail(Errc::kInvalidArgument,
                fmt::format("sges: an {} returns {} bytes, the list has {}",
                            request.op == SendOp::kAtomicWrite ? "atomic write" : "atomic",
                            atomic_bytes(request.op), length));
  }
  if (request.delay_ns > kMaxDelay_ns) {
    return fail(Errc::kInvalidArgument, fmt::format("delay_ns: {} is more than {} (one hour)",
                                                    request.delay_ns, kMaxDelay_ns));
  }
  return fail(Errc::kOutOfMemory, "no memory for the send ring");
}

/// Inline data is copied at post time, so that the program may reuse its buffer at once.
Result<void> copy_inline(const QueuePair& qp, SendWqe& wqe, std::span<const Sge> sges) {
  std::byte* to = wqe.inline_bytes();
  for (std::size_t i = 0; i < sges.size(); ++i) {
    const Sge& sge = sges[i];
    if (sge.length == 0) continue;
    if (memory::load({to, sge.length}, {qp.space, sge.address}) != memory::Fault::kNone) {
      return fail(Errc::kBadAddress, fmt::format("sges[{}]: {} bytes at {:#x} cannot be read", i,
                                                 sge.length, sge.address));
    }
    to += sge.length;
  }
  wqe.num_sge = 0;
  return {};
}

void flush_receives(QueuePair& qp) {
  if (qp.rq == nullptr) return;
  while (ReceiveWqe* wqe = qp.rq->take()) {
    Completion completion;
    completion.wr_id = wqe->wr_id;
    completion.status = CompletionStatus::kFlushed;
    completion.op = CompletionOp::kReceive;
    completion.qpn = qp.qpn;
    qp.rq->release(wqe);
    qp.recv_cq->push(completion, true);
  }
}

}  // namespace

Result<void> enqueue_send(QueuePair& qp, const SendRequest& request) {
  std::uint64_t length = 0;
  for (const Sge& sge : request.sges) length += sge.length;

  const bool inlined = has(request.flags, SendFlags::kInline);
  const bool atomic = is_atomic(request.op);
  const bool allowed =
      (kOpsOf[static_cast<int>(qp.service)] & bit(request.op)) != 0 &&
      (inlined ? length <= qp.sq.max_inline() && request.op < SendOp::kRead
               : request.sges.size() <= qp.sq.max_sge()) &&
      length <= kMaxMessageBytes && (!atomic || length == atomic_bytes(request.op)) &&
      request.delay_ns <= kMaxDelay_ns &&
      (qp.service != Service::kUnreliableDatagram || length <= bytes(qp.attributes.path_mtu));
  if (!allowed) return refuse_send(qp, request, length);
  if (inlined && length > qp.sq.inline_room() && !qp.sq.widen()) [[unlikely]]
    return refuse_send(qp, request, length);

  SendWqe* wqe = qp.sq.reserve();
  if (wqe == nullptr) [[unlikely]] {
    if (qp.sq.tail() - qp.sq.head() < qp.sq.capacity()) return refuse_send(qp, request, length);
    return fail(Errc::kQueueFull,
                fmt::format("send queue full: all {} elements are outstanding", qp.sq.capacity()));
  }

  wqe->wr_id = request.wr_id;
  wqe->op = request.op;
  wqe->flags = qp.signal_all ? request.flags | SendFlags::kSignaled : request.flags;
  wqe->num_sge = static_cast<std::uint8_t>(request.sges.size());
  wqe->finished = false;
  wqe->started = false;
  wqe->status = CompletionStatus::kSuccess;
  wqe->length = static_cast<std::uint32_t>(length);
  wqe->immediate = request.immediate;
  wqe->remote_srq = request.remote_srq;
  switch (request.op) {
    case SendOp::kSendInvalidate:
    case SendOp::kLocalInvalidate:
      wqe->immediate = request.invalidate_key.value;
      break;
    case SendOp::kBind:
      wqe->bind = request.bind;
      break;
    case SendOp::kDelay:
      wqe->delay_ns = request.delay_ns;
      break;
    case SendOp::kSend:
    case SendOp::kSendImmediate:
      if (qp.service == Service::kUnreliableDatagram) {
        wqe->datagram = {request.destination, request.destination_qpn, request.destination_qkey};
      }
      break;
    default:
      wqe->rdma = {request.remote, request.compare, request.operand};
  }
  if (qp.service == Service::kReliableDatagram) [[unlikely]] {
    SendQueue::route_of(*wqe) = {.destination = request.destination,
                                 .qpn = request.destination_qpn,
                                 .qkey = request.destination_qkey,
                                 .source_qpn = qp.qpn,
                                 .pd = qp.pd,
                                 .source = &qp,
                                 .epoch = qp.epoch.load(std::memory_order_relaxed)};
  }
  if (inlined) {
    if (auto copied = copy_inline(qp, *wqe, request.sges); !copied) return copied;
  } else {
    Sge* to = wqe->sges();
    for (const Sge& sge : request.sges) *to++ = sge;
  }
  qp.sq.commit();
  return {};
}

void complete_front(QueuePair& qp, CompletionStatus status, std::uint32_t byte_count) {
  const SendWqe& wqe = qp.sq.front();
  if (wqe.signaled() || status != CompletionStatus::kSuccess) {
    Completion completion;
    completion.wr_id = wqe.wr_id;
    completion.status = status;
    completion.op = completion_op(wqe.op);
    completion.byte_count = byte_count;
    completion.qpn = qp.qpn;
    qp.sq.pop();
    qp.send_cq->push(completion, false);
  } else {
    qp.sq.pop();
  }
}

std::uint8_t shown_service(const QueuePair& qp) {
  return static_cast<std::uint8_t>(static_cast<unsigned>(qp.service) |
                                   (qp.xrc_domain != nullptr ? kExtendedTarget : 0));
}

std::uint8_t wanted_service(const QueuePair& qp) {
  return static_cast<std::uint8_t>(static_cast<unsigned>(qp.service) |
                                   (qp.extended_initiator ? kExtendedTarget : 0));
}

void show(QueuePair& qp) {
  host::PublicQueuePair* shown = qp.shown;
  if (shown == nullptr) return;
  const std::uint64_t epoch = qp.epoch.load(std::memory_order_acquire);
  if (!qp.can_receive()) {
    // Whoever waits for neighbours to leave goes on with a drain, which orders this.
    shown->word.store(epoch << 1, std::memory_order_release);
    return;
  }
  shown->remote_gid = std::hash<Gid>()(qp.attributes.remote_gid);
  shown->remote_qpn = qp.attributes.remote_qpn.value;
  shown->pd = qp.pd.value;
  shown->access =
      static_cast<std::uint32_t>(qp.shared->serves_rdma ? qp.attributes.access : Access::kNone);
  shown->service = shown_service(qp);
  // release pairs with the acquire of the initiator that looks the queue pair up.
  shown->word.store(epoch << 1 | 1, std::memory_order_release);
}

void fail_queue_pair(QueuePair& qp) {
  QpState now = qp.state.load(std::memory_order_relaxed);
  while (now != QpState::kError && now != QpState::kReset) {
    if (qp.state.compare_exchange_weak(now, QpState::kError, std::memory_order_acq_rel)) {
      qp.epoch.fetch_add(1, std::memory_order_acq_rel);
      show(qp);
      qp.shared->scheduler->run_soon(qp);
      return;
    }
  }
}

void flush(QueuePair& qp) {
  const std::lock_guard send_guard(qp.send_lock);
  const std::lock_guard recv_guard(qp.recv_lock);
  const QpState state = qp.state.load(std::memory_order_acquire);
  if (state != QpState::kError && state != QpState::kSendQueueError) return;
  if (qp.path != nullptr) qp.path->stop(qp);
  while (!qp.sq.empty()) complete_front(qp, CompletionStatus::kFlushed, 0);
  if (state == QpState::kSendQueueError) return;
  // These have no receives of their own.
  if (qp.xrc_domain != nullptr || qp.fanout != nullptr) return;
  if (qp.shared_receive == nullptr) {
    flush_receives(qp);
  } else if (!qp.last_receive_told) {
    qp.last_receive_told = true;
    qp.shared->events->on_event(qp, QpEvent::kLastReceiveReached);
  }
}

}  // namespace weft::queue

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "verbs/objects.h"
#include "weft/verbs.h"

namespace weft::verbs {
namespace {

constexpr QpAttribute kInit = QpAttribute::kPort | QpAttribute::kPKeyIndex;
constexpr QpAttribute kRtr = QpAttribute::kAddress | QpAttribute::kPathMtu |
                             QpAttribute::kRemoteQpn | QpAttribute::kReceivePsn;
constexpr QpAttribute kReliableRtr =
    kRtr | QpAttribute::kMaxDestRdAtomic | QpAttribute::kMinRnrTimer | QpAttribute::kAckPolicy;
constexpr QpAttribute kReliableRts = QpAttribute::kTimeout | QpAttribute::kRetryCount |
                                     QpAttribute::kRnrRetry | QpAttribute::kSendPsn |
                                     QpAttribute::kMaxRdAtomic;

/// What was asked for, or the most that the port can carry.
Mtu fitting_mtu(const QpObject& object, const QueuePairAttributes& attributes) {
  const Controller& controller = object.controller();
  if (attributes.port == 0 || attributes.port > controller.info().ports) return attributes.path_mtu;
  return std::min(attributes.path_mtu, controller.max_mtu(attributes.port));
}

/// Out of line, so that the fast path of post_send stays small.
[[gnu::noinline]] Result<void> post_one(QpObject& object, const SendRequest& request) {
  std::size_t posted = 0;
  return object.controller().post_send(*object.core, {&request, 1}, &posted);
}

}  // namespace

// ---- shared receive queues ------------------------------------------------------------------

SharedReceiveQueue::SharedReceiveQueue(std::shared_ptr<SrqObject> object)
    : object_(std::move(object)) {}

Result<void> SharedReceiveQueue::post(const ReceiveRequest& request) const {
  return object_->post(request);
}

Result<void> SharedReceiveQueue::arm_limit(std::uint32_t limit) const {
  if (limit > object_->capacity()) {
    return fail(Errc::kInvalidArgument,
                fmt::format("limit: {} is more than the queue's {}", limit, object_->capacity()));
  }
  object_->arm_limit(limit);
  return {};
}

std::uint32_t SharedReceiveQueue::number() const { return object_->number; }
std::uint32_t SharedReceiveQueue::posted() const { return object_->posted(); }

// ---- queue pairs ----------------------------------------------------------------------------

QueuePair::QueuePair(std::unique_ptr<QpObject> object) : object_(std::move(object)) {}
QueuePair::QueuePair(QueuePair&&) noexcept = default;
QueuePair& QueuePair::operator=(QueuePair&&) noexcept = default;
QueuePair::~QueuePair() = default;

Qpn QueuePair::number() const { return object_->core->qpn; }
QpState QueuePair::state() const { return object_->core->state.load(std::memory_order_acquire); }

Endpoint QueuePair::endpoint() const {
  queue::QueuePair& core = *object_->core;
  const std::lock_guard guard(core.send_lock);
  return {core.local_gid, core.qpn, core.attributes.send_psn};
}

QueuePairAttributes QueuePair::attributes() const {
  queue::QueuePair& core = *object_->core;
  const std::lock_guard guard(core.send_lock);
  return core.attributes;
}

Result<void> QueuePair::modify(QpState to, const QueuePairAttributes& attributes,
                               QpAttribute given) {
  return object_->controller().modify(*object_->core, to, attributes, given);
}

Result<void> QueuePair::connect(const Endpoint& peer, QueuePairAttributes attributes) {
  const bool reliable = object_->core->service == Service::kReliableConnection;
  if (object_->core->service >= Service::kUnreliableDatagram) {
    return fail(Errc::kNotSupported, "connect: datagrams have no peer; use activate()");
  }
  attributes.remote_gid = peer.gid;
  attributes.remote_qpn = peer.qpn;
  attributes.receive_psn = peer.psn;
  attributes.send_psn = endpoint().psn;
  attributes.path_mtu = fitting_mtu(*object_, attributes);
  if (auto ok = modify(QpState::kInit, attributes, kInit | QpAttribute::kAccess); !ok) return ok;
  if (auto ok = modify(QpState::kReadyToReceive, attributes, reliable ? kReliableRtr : kRtr); !ok) {
    return ok;
  }
  return modify(QpState::kReadyToSend, attributes, reliable ? kReliableRts : QpAttribute::kSendPsn);
}

Result<void> QueuePair::activate(QKey qkey, QueuePairAttributes attributes) {
  if (object_->core->service == Service::kRawDatagram) {
    if (auto ok = modify(QpState::kInit, attributes, QpAttribute::kPort); !ok) return ok;
    if (auto ok = modify(QpState::kReadyToReceive); !ok) return ok;
    return modify(QpState::kReadyToSend);
  }
  attributes.qkey = qkey;
  attributes.send_psn = endpoint().psn;
  attributes.path_mtu = fitting_mtu(*object_, attributes);
  if (object_->core->service == Service::kReliableDatagram) {
    constexpr QpAttribute kReceives = QpAttribute::kPathMtu | QpAttribute::kMaxDestRdAtomic |
                                      QpAttribute::kMinRnrTimer | QpAttribute::kAckPolicy;
    const QpAttribute init = kInit | QpAttribute::kQKey | QpAttribute::kAccess;
    if (auto ok = modify(QpState::kInit, attributes, init); !ok) return ok;
    if (auto ok = modify(QpState::kReadyToReceive, attributes, kReceives); !ok) return ok;
    return modify(QpState::kReadyToSend, attributes, kReliableRts);
  }
  if (auto ok = modify(QpState::kInit, attributes, kInit | QpAttribute::kQKey); !ok) return ok;
  if (auto ok = modify(QpState::kReadyToReceive, attributes, QpAttribute::kPathMtu); !ok) {
    return ok;
  }
  return modify(QpState::kReadyToSend, attributes, QpAttribute::kSendPsn);
}

Result<void> QueuePair::post_send(std::span<const SendRequest> requests, std::size_t* posted) {
  return object_->controller().post_send(*object_->core, requests, posted);
}

Result<void> QueuePair::post_send(const SendRequest& request) {
  if (Controller::fast_post(*object_->core, request)) [[likely]]
    return {};
  return post_one(*object_, request);
}

Result<void> QueuePair::post_receive(std::span<const ReceiveRequest> requests,
                                     std::size_t* posted) {
  return object_->controller().post_receive(*object_->core, requests, posted);
}

Result<void> QueuePair::post_receive(const ReceiveRequest& request) {
  std::size_t posted = 0;
  return object_->controller().post_receive(*object_->core, {&request, 1}, &posted);
}

Result<void> QueuePair::post_send(const Sge& from, std::uint64_t wr_id) {
  SendRequest request;
  request.wr_id = wr_id;
  request.sges = {&from, 1};
  return post_send(request);
}

Result<void> QueuePair::post_receive(const Sge& to, std::uint64_t wr_id) {
  return post_receive(ReceiveRequest{wr_id, {&to, 1}});
}

Result<void> QueuePair::post_write(const Sge& from, const RemoteAddress& to, std::uint64_t wr_id) {
  SendRequest request;
  request.wr_id = wr_id;
  request.op = SendOp::kWrite;
  request.sges = {&from, 1};
  request.remote = to;
  return post_send(request);
}

Result<void> QueuePair::post_read(const Sge& to, const RemoteAddress& from, std::uint64_t wr_id) {
  SendRequest request;
  request.wr_id = wr_id;
  request.op = SendOp::kRead;
  request.sges = {&to, 1};
  request.remote = from;
  return post_send(request);
}

Result<void> QueuePair::attach_multicast(const Gid& group) {
  Controller& controller = object_->controller();
  if (auto ok = controller.check_ours(); !ok) return ok;
  queue::QueuePair& qp = *object_->core;
  return controller.groups().join(qp, group, controller.wire(qp.attributes.port));
}

Result<void> QueuePair::detach_multicast(const Gid& group) {
  Controller& controller = object_->controller();
  if (auto ok = controller.check_ours(); !ok) return ok;
  return controller.groups().leave(*object_->core, group);
}

Result<void> QueuePair::claim(const RawKey& key) {
  Controller& controller = object_->controller();
  if (auto ok = controller.check_ours(); !ok) return ok;
  return controller.raw().claim(*object_->core, key);
}

Result<void> QueuePair::release(const RawKey& key) {
  Controller& controller = object_->controller();
  if (auto ok = controller.check_ours(); !ok) return ok;
  return controller.raw().release(*object_->core, key);
}

}  // namespace weft::verbs

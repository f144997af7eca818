#include <cerrno>
#include <span>

#include "ucma/commands.h"

// Connections: asking, answering, ending.
namespace weft::ucma {
namespace {

template <class Parameters>
std::span<const std::byte> private_data_of(const Parameters& parameters) {
  return std::as_bytes(std::span(parameters.private_data)).first(parameters.private_data_len);
}

cm::VendorOptions vendor_of(const rdma_ucm_ece& from) { return {from.vendor_id, from.attr_mod}; }

cm::ConnectionParameters parameters_of(const rdma_ucm_conn_param& from,
                                       const rdma_ucm_ece& vendor) {
  return {.qpn = Qpn(from.qp_num),
          .responder_resources = from.responder_resources,
          .initiator_depth = from.initiator_depth,
          .flow_control = from.flow_control != 0,
          .srq = from.srq != 0,
          .retry_count = from.retry_count,
          .rnr_retry_count = from.rnr_retry_count,
          .vendor = vendor_of(vendor)};
}

}  // namespace

int connect(const Call& call) {
  const auto command = call.read<rdma_ucm_connect>();
  const rdma_ucm_conn_param& from = command.conn_param;
  if (from.valid == 0) return EINVAL;
  return call.with(command.id, [&](cm::Manager& manager, cm::Identifier& id, Nanoseconds now,
                                   cm::Actions& out) {
    if (!id.datagram()) {
      return manager.connect(id, parameters_of(from, command.ece), private_data_of(from), now, out);
    }
    if (from.qkey != 0) id.qkey = QKey(from.qkey);
    return manager.ask(id, private_data_of(from), now, out);
  });
}

int accept(const Call& call) {
  const auto command = call.read<rdma_ucm_accept>();
  const rdma_ucm_conn_param& from = command.conn_param;
  if (from.valid == 0) {  // what librdmacm writes when the peer has accepted
    return call.with(command.id, [](cm::Manager& manager, cm::Identifier& id, Nanoseconds now,
                                    cm::Actions& out) { return manager.confirm(id, now, out); });
  }
  int error = 0;
  Context* const context = call.find(command.id, error);
  if (context == nullptr) return error;
  const UserTag before = context->tag;
  context->tag = UserTag(command.uid);
  error = call.with(command.id, [&](cm::Manager& manager, cm::Identifier& id, Nanoseconds now,
                                    cm::Actions& out) {
    if (!id.datagram()) {
      return manager.accept(id, parameters_of(from, command.ece), private_data_of(from), now, out);
    }
    if (from.qkey != 0) id.qkey = QKey(from.qkey);
    return manager.answer(id, {.qpn = Qpn(from.qp_num), .vendor = vendor_of(command.ece)},
                          private_data_of(from), now, out);
  });
  if (error != 0) context->tag = before;
  return error;
}

int reject(const Call& call) {
  const auto command = call.read<rdma_ucm_reject>();
  const auto reason = command.reason == 0 ? cm::RejectReason::kConsumer
                                          : static_cast<cm::RejectReason>(command.reason);
  if (reason != cm::RejectReason::kConsumer && reason != cm::RejectReason::kVendorOption) {
    return EINVAL;
  }
  return call.with(
      command.id, [&](cm::Manager& manager, cm::Identifier& id, Nanoseconds now, cm::Actions& out) {
        if (!id.datagram()) return manager.reject(id, reason, private_data_of(command), now, out);
        return manager.answer(id, {.status = cm::ServiceStatus::kReject}, private_data_of(command),
                              now, out);
      });
}

int disconnect(const Call& call) {
  const auto command = call.read<rdma_ucm_disconnect>();
  return call.with(command.id, [](cm::Manager& manager, cm::Identifier& id, Nanoseconds now,
                                  cm::Actions& out) { return manager.disconnect(id, now, out); });
}

int notify(const Call& call) {
  constexpr std::uint32_t kCommunicationEstablished = 4;  // of the verbs' asynchronous events
  const auto command = call.read<rdma_ucm_notify>();
  int error = 0;
  Context* const context = call.find(command.id, error);
  if (context == nullptr) return error;
  if (command.event != kCommunicationEstablished) return EINVAL;
  const auto& connection = context->id.connection;
  if (connection && connection->phase() == cm::Connection::Phase::kEstablished) return EISCONN;
  return call.with(command.id, [](cm::Manager& manager, cm::Identifier& id, Nanoseconds now,
                                  cm::Actions& out) { return manager.on_data(id, now, out); });
}

}  // namespace weft::ucma

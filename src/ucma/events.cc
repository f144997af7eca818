#include "ucma/events.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "files/gid_table.h"
#include "ucma/shown_devices.h"

namespace weft::ucma {
namespace {

constexpr std::uint16_t kMulticastLid = 0xC000;
constexpr std::uint32_t kMulticastQpn = 0xFFFFFF;

template <class Parameters>
void set_private_data(Parameters& parameters, std::span<const std::byte> data) {
  const std::size_t size = std::min<std::size_t>(data.size(), 255);
  if (size > 0) std::memcpy(parameters.private_data, data.data(), size);
  parameters.private_data_len = static_cast<std::uint8_t>(size);
}

void set_connection(rdma_ucm_conn_param& to, const cm::Connection::Terms& terms) {
  to.qp_num = terms.remote_qpn.value;
  to.responder_resources = terms.responder_resources;
  to.initiator_depth = terms.initiator_depth;
  to.flow_control = terms.flow_control ? 1 : 0;
  to.retry_count = terms.retry_count;
  to.rnr_retry_count = terms.rnr_retry_count;
  to.srq = terms.srq ? 1 : 0;
}

void set_vendor(rdma_ucm_event_resp& response, const cm::VendorOptions& vendor) {
  response.ece.vendor_id = vendor.vendor;
  response.ece.attr_mod = vendor.options;
}

void set_datagram(rdma_ucm_ud_param& to, const cm::Identifier& id, std::uint32_t qpn, QKey qkey) {
  to.qp_num = qpn;
  to.qkey = qkey.value;
  to.ah_attr = address_vector(id, id.remote_gid);
}

QueuedEvent make_event(const Context& context, EventCode code, int status) {
  QueuedEvent event;
  event.owner = context.id.handle;
  event.response.uid = context.tag.value;
  event.response.id = context.id.handle.value;
  event.response.event = static_cast<std::uint32_t>(code);
  event.response.status = static_cast<std::uint32_t>(status);
  return event;
}

}  // namespace

ib_uverbs_ah_attr address_vector(const cm::Identifier& id, const Gid& destination) {
  ib_uverbs_ah_attr vector{};
  std::memcpy(vector.grh.dgid, destination.raw.data(), sizeof vector.grh.dgid);
  const auto* const shown = id.device != nullptr ? shown_with(id.device->address) : nullptr;
  if (shown != nullptr) vector.grh.sgid_index = files::address_gid_index(*shown);
  vector.grh.hop_limit = cm::kHopLimit;
  vector.grh.traffic_class = id.traffic_class;
  vector.is_global = 1;
  vector.port_num = 1;
  return vector;
}

QueuedEvent make_event(const Context& context, const cm::Event& event) {
  const cm::Identifier& id = context.id;
  const auto with_data = [&](EventCode code, int status) {
    QueuedEvent queued = make_event(context, code, status);
    set_private_data(queued.response.param.conn, event.private_data);
    return queued;
  };
  switch (event.kind) {
    case cm::Event::Kind::kReplied: {
      QueuedEvent queued = with_data(EventCode::kConnectResponse, 0);
      set_connection(queued.response.param.conn, id.connection->terms());
      set_vendor(queued.response, id.connection->terms().vendor);
      return queued;
    }
    case cm::Event::Kind::kEstablished:
      return with_data(EventCode::kEstablished, 0);
    case cm::Event::Kind::kRejected:
      return with_data(EventCode::kRejected, static_cast<int>(event.reason));
    case cm::Event::Kind::kUnreachable:
      return make_event(context, EventCode::kUnreachable, -ETIMEDOUT);
    case cm::Event::Kind::kDisconnected:
      return make_event(context, EventCode::kDisconnected, event.timed_out ? -ETIMEDOUT : 0);
    case cm::Event::Kind::kTimewaitOver:
      return make_event(context, EventCode::kTimewaitExit, 0);
    case cm::Event::Kind::kResolved: {
      QueuedEvent queued = make_event(context, EventCode::kEstablished, 0);
      set_datagram(queued.response.param.ud, id, id.query->qpn().value, id.query->qkey());
      set_private_data(queued.response.param.ud, event.private_data);
      return queued;
    }
    case cm::Event::Kind::kRefused:
      return make_event(context, EventCode::kUnreachable, static_cast<int>(event.status));
    case cm::Event::Kind::kAddressResolved:
      return make_event(context, EventCode::kAddressResolved, 0);
    case cm::Event::Kind::kNoRoute:
      return make_event(context, EventCode::kAddressError, -EHOSTUNREACH);
    case cm::Event::Kind::kRouteResolved:
      return make_event(context, EventCode::kRouteResolved, 0);
    case cm::Event::Kind::kConnectRequest:
      break;
  }
  return {};
}

QueuedEvent make_request_event(const Context& listener, const cm::Identifier& child,
                               std::span<const std::byte> private_data) {
  QueuedEvent event = make_event(listener, EventCode::kConnectRequest, 0);
  event.response.id = child.handle.value;
  event.child = child.handle;
  event.has_child = true;
  if (child.datagram()) {
    set_private_data(event.response.param.ud, private_data);
  } else {
    set_connection(event.response.param.conn, child.connection->terms());
    set_vendor(event.response, child.connection->terms().vendor);
    set_private_data(event.response.param.conn, private_data);
  }
  return event;
}

QueuedEvent make_join_event(const Context& context, const Multicast& group) {
  QueuedEvent event = make_event(context, EventCode::kMulticastJoin, 0);
  const cm::Identifier& id = context.id;
  event.response.uid = group.tag.value;
  event.response.id = group.handle.value;
  event.group = group.handle;
  event.has_group = true;
  rdma_ucm_ud_param& to = event.response.param.ud;
  to.qp_num = kMulticastQpn;
  to.qkey = id.qkey.value;
  to.ah_attr = address_vector(id, group.group);
  to.ah_attr.dlid = kMulticastLid;
  return event;
}

}  // namespace weft::ucma

// How channels come about: addresses, routes, requests, through the connection manager's events.
// Nothing here waits; a connection that is under way moves with the rounds of its context.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "channel/context_object.h"

namespace weft::channel {
namespace {

constexpr int kResolveMs = 2000, kBacklog = 1024;
constexpr int kEventsAtOnce = 64;

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Result<AddressList> resolve(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  const std::string service = std::to_string(port);
  const int error =
      getaddrinfo(host.empty() ? nullptr : host.c_str(), service.c_str(), &hints, &found);
  if (error != 0) {
    return fail(Errc::kNotFound, fmt::format("host: {}: {}", host, gai_strerror(error)));
  }
  return AddressList(found, &freeaddrinfo);
}

tl::unexpected<Error> system_error(std::string_view what) {
  return fail(Errc::kSystem, fmt::format("{}: {}", what, std::strerror(errno)));
}

/// What an identifier of the connection manager belongs to: listeners have no channel.
ChannelObject* channel_of(rdma_cm_id* id) { return static_cast<ChannelObject*>(id->context); }

}  // namespace

ListenerObject::~ListenerObject() {
  ready.clear();
  coming.clear();
  const std::lock_guard guard(context->lock());
  context->drop(*this);
  if (id != nullptr) rdma_destroy_id(id);
}

Result<void> ContextObject::use_device(ibv_context* verbs) {
  if (verbs == nullptr) return fail(Errc::kNotFound, "that address belongs to no RDMA device");
  if (device_ != nullptr) {
    if (device_->verbs() == verbs) return {};
    return fail(Errc::kNotSupported,
                "that address belongs to another RDMA device than this context's");
  }
  auto device = Device::open(verbs, budget_);
  if (!device) return tl::unexpected(device.error());
  device_ = std::move(*device);
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, device_->event_fd(), &event) != 0) {
    return system_error("epoll");
  }
  return {};
}

Result<std::shared_ptr<ListenerObject>> ContextObject::listen(
    const std::string& host, std::uint16_t port, std::shared_ptr<const Settings> settings) {
  auto address = resolve(host, port, AI_PASSIVE);
  if (!address) return tl::unexpected(address.error());
  auto listener = std::make_shared<ListenerObject>(shared_from_this());
  listener->settings = std::move(settings);
  const std::lock_guard guard(lock_);
  const auto refuse = [&](const char* what) {
    auto error = system_error(what);
    if (listener->id != nullptr) rdma_destroy_id(listener->id);
    listener->id = nullptr;
    return error;
  };
  if (rdma_create_id(connections_, &listener->id, nullptr, RDMA_PS_TCP) != 0) {
    listener->id = nullptr;
    return refuse("rdma_create_id");
  }
  if (rdma_bind_addr(listener->id, (*address)->ai_addr) != 0) return refuse("rdma_bind_addr");
  if (rdma_listen(listener->id, kBacklog) != 0) return refuse("rdma_listen");
  listener->port = ntohs(rdma_get_src_port(listener->id));
  listeners_.push_back(listener.get());
  return listener;
}

Result<std::shared_ptr<ChannelObject>> ContextObject::connect(
    const std::string& host, std::uint16_t port, std::shared_ptr<const Settings> settings) {
  auto address = resolve(host, port, 0);
  if (!address) return tl::unexpected(address.error());
  std::shared_ptr<ChannelObject> channel;
  rdma_cm_id* id = nullptr;
  Result<void> result;
  {
    const std::lock_guard guard(lock_);
    channel = std::make_shared<ChannelObject>(shared_from_this(), std::move(settings));
    if (rdma_create_id(connections_, &id, channel.get(), RDMA_PS_TCP) != 0) {
      result = system_error("rdma_create_id");
    } else {
      channel->set_id(id);
      if (rdma_resolve_addr(id, nullptr, (*address)->ai_addr, kResolveMs) != 0) {
        result = system_error("rdma_resolve_addr");
      } else {
        ++connecting_;
        channel->counted_connecting = true;
      }
    }
  }
  if (!result) return tl::unexpected(result.error());
  return channel;
}

rdma_conn_param ContextObject::parameters(std::span<const std::byte> hello) const {
  rdma_conn_param parameters{};
  parameters.private_data = hello.data();
  parameters.private_data_len = static_cast<std::uint8_t>(hello.size());
  parameters.responder_resources = parameters.initiator_depth = device_->reads_at_once();
  parameters.retry_count = 7;
  parameters.rnr_retry_count = 7;  // without end: the receiver puts its bells back when it looks
  return parameters;
}

bool ContextObject::poll_connections() {
  bool any = false;
  for (int i = 0; i < kEventsAtOnce; ++i) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(connections_, &event) != 0) break;
    any = true;
    on_connection(*event);
  }
  return any;
}

// Acknowledges the event before anything that destroys its identifier, which would wait for it.
void ContextObject::on_connection(rdma_cm_event& event) {
  if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
    const auto at = std::find_if(listeners_.begin(), listeners_.end(),
                                 [&](ListenerObject* l) { return l->id == event.listen_id; });
    if (at != listeners_.end()) return on_request(event, **at);
    rdma_cm_id* id = event.id;
    rdma_ack_cm_event(&event);
    rdma_reject(id, nullptr, 0);
    rdma_destroy_id(id);
    return;
  }
  ChannelObject* channel = channel_of(event.id);
  const rdma_cm_event_type kind = event.event;
  const int status = event.status;
  if (channel == nullptr) {
    rdma_ack_cm_event(&event);
    return;
  }
  if (kind == RDMA_CM_EVENT_ESTABLISHED) return on_established(event, *channel);
  rdma_ack_cm_event(&event);
  switch (kind) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (auto ok = use_device(channel->id()->verbs); !ok) {
        channel->lose(ok.error().message);
      } else if (rdma_resolve_route(channel->id(), kResolveMs) != 0) {
        channel->lose(fmt::format("no route: {}", std::strerror(errno)));
      }
      break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      on_route(*channel);
      break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      channel->lose(fmt::format("the host cannot be reached: {}", std::strerror(std::abs(status))));
      break;
    case RDMA_CM_EVENT_REJECTED:
      channel->lose(
          "the peer refused the connection: nothing listens there, or it speaks another protocol, "
          "or "
          "has no memory");
      break;
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
      channel->lose(fmt::format("the connection failed: {}", rdma_event_str(kind)));
      break;
    case RDMA_CM_EVENT_DISCONNECTED:
      if (channel->lets_identifier_go() && channel->listener != nullptr) {
        // The peer knows that the connection stands, and has let its identifier go: the news of
        // the former was lost on its way.
        stand(*channel);
        break;
      }
      poll_completions();  // what came before it counts
      if (channel->has_endpoint()) channel->endpoint().progress(now_);
      channel->lose("the connection was ended by the peer");
      if (channel->has_endpoint()) note_ready(*channel);
      break;
    default:
      break;
  }
  if (channel->life() != Life::kLost) return;
  end_connecting(*channel);
  if (channel->listener != nullptr) give_up_coming(*channel);
}

void ContextObject::end_connecting(ChannelObject& channel) {
  if (!channel.counted_connecting) return;
  channel.counted_connecting = false;
  --connecting_;
}

void ContextObject::on_route(ChannelObject& channel) {
  if (!channel.prepare(channel.id())) return channel.lose(channel.error());
  std::array<std::byte, Hello::kBytes> hello;
  channel.hello().emit(hello);
  rdma_conn_param with = parameters(hello);
  if (rdma_connect(channel.id(), &with) != 0) {
    channel.lose(fmt::format("rdma_connect: {}", std::strerror(errno)));
  }
}

void ContextObject::on_request(rdma_cm_event& event, ListenerObject& listener) {
  rdma_cm_id* id = event.id;
  const auto peer = Hello::parse({static_cast<const std::byte*>(event.param.conn.private_data),
                                  event.param.conn.private_data_len});
  rdma_ack_cm_event(&event);
  auto channel = std::make_shared<ChannelObject>(shared_from_this(), listener.settings);
  id->context = channel.get();
  std::array<std::byte, Hello::kBytes> hello;
  if (peer && !peer->lets_identifier_go) channel->keep_identifier();
  if (peer && use_device(id->verbs) && channel->prepare(id)) {
    channel->hello().emit(hello);
    channel->meet(*peer);
    rdma_conn_param with = parameters(hello);
    if (rdma_accept(id, &with) == 0) {
      channel->set_life(Life::kOpen);  // the peer may write before we are told that it knows
      channel->listener = &listener;
      listener.coming.push_back(std::move(channel));
      return;
    }
  } else {
    rdma_reject(id, nullptr, 0);
    channel->set_id(id);
  }
  dropped_.push_back(std::move(channel));  // destroyed without the lock
}

/// The peer knows that the connection stands.
void ContextObject::stand(ChannelObject& channel) {
  ListenerObject& listener = *std::exchange(channel.listener, nullptr);
  const auto at = std::find_if(listener.coming.begin(), listener.coming.end(),
                               [&](const auto& c) { return c.get() == &channel; });
  listener.ready.push_back(std::move(*at));
  listener.coming.erase(at);
  channel.let_identifier_go();
}

/// The peer went away before it was certain that the connection stands. If it has sent something,
/// somebody may want it; otherwise nobody has heard of this channel.
void ContextObject::give_up_coming(ChannelObject& channel) {
  if (channel.endpoint().receive().has_something()) return stand(channel);
  ListenerObject& listener = *std::exchange(channel.listener, nullptr);
  const auto at = std::find_if(listener.coming.begin(), listener.coming.end(),
                               [&](const auto& c) { return c.get() == &channel; });
  dropped_.push_back(std::move(*at));
  listener.coming.erase(at);
}

void ContextObject::on_established(rdma_cm_event& event, ChannelObject& channel) {
  if (channel.listener != nullptr) {
    rdma_ack_cm_event(&event);
    return stand(channel);
  }
  const auto peer = Hello::parse({static_cast<const std::byte*>(event.param.conn.private_data),
                                  event.param.conn.private_data_len});
  rdma_ack_cm_event(&event);
  end_connecting(channel);
  if (!peer) return channel.lose("what listens there does not speak this protocol");
  channel.meet(*peer);
  channel.set_life(Life::kOpen);
  if (!peer->lets_identifier_go) channel.keep_identifier();
  channel.let_identifier_go();
  activate(channel);  // its peer may have notified it already
}

}  // namespace weft::channel

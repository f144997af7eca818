// Events as the device reports them. Each is made once, waits in a file's queue and is copied to
// the program. Plain values.
#pragma once

#include <netinet/in.h>
// The kernel's headers after the C library's: both know sockaddr_in6.
#include <rdma/rdma_user_cm.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "cm/outcome.h"
#include "ucma/context.h"

namespace weft::ucma {

enum class EventCode : std::uint32_t {
  kAddressResolved,
  kAddressError,
  kRouteResolved,
  kRouteError,
  kConnectRequest,
  kConnectResponse,
  kConnectError,
  kUnreachable,
  kRejected,
  kEstablished,
  kDisconnected,
  kDeviceRemoval,
  kMulticastJoin,
  kMulticastError,
  kAddressChange,
  kTimewaitExit,
};

struct QueuedEvent {
  rdma_ucm_event_resp response{};
  Handle owner;  ///< whose count of reported events it adds to
  Handle child;  ///< of a connection request, the new identifier
  Handle group;  ///< of a multicast event, the membership
  bool has_child = false, has_group = false;
};

/// What the connection manager tells of an identifier, but for requests.
QueuedEvent make_event(const Context& context, const cm::Event& event);
/// To the listener's program: `child` wants to connect.
QueuedEvent make_request_event(const Context& listener, const cm::Identifier& child,
                               std::span<const std::byte> private_data);
QueuedEvent make_join_event(const Context& context, const Multicast& group);

/// How to reach the peer, or a group.
ib_uverbs_ah_attr address_vector(const cm::Identifier& id, const Gid& destination);

}  // namespace weft::ucma

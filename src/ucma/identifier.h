// What stands behind one rdma_cm_id: its addresses, its device, and the state machine of its
// connection once there is one. Owned by the agent's table; touched only under the agent's lock.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "cm/connection.h"
#include "cm/host_exchange.h"
#include "cm/service_query.h"
#include "files/device_list.h"
#include "ucma/endpoint.h"

namespace weft::ucma {

class File;

/// How programs name an identifier to the device.
using Handle = Strong<struct HandleTag, std::uint32_t>;
/// What an event carries so that the program knows its object again; 0: none yet.
using UserTag = Strong<struct UserTagTag, std::uint64_t>;

/// The kernel's numbers of queue-pair types.
enum class QpType : std::uint8_t {
  kUnknown = 0,
  kReliable = 2,
  kUnreliable = 3,
  kDatagram = 4,
  kExtendedSend = 9,
  kExtendedReceive = 10,
};

/// How long to wait for an acknowledgement unless the program says otherwise: 4.096 us << 16, 0.3
/// s.
inline constexpr std::uint8_t kAckTimeout = 16;
inline constexpr std::uint8_t kHopLimit = 64;

struct Multicast {
  Handle handle;
  UserTag tag;
  Gid group;
  bool send_only = false;
  std::uint32_t events_reported = 0;
};

struct Identifier {
  enum class State : std::uint8_t {
    kIdle,
    kBound,
    kAddressResolved,
    kRouteResolved,
    kListening,
    kConnecting,  ///< from here on, the connection knows more
  };

  Handle handle;
  UserTag tag;
  File* file = nullptr;
  cm::PortSpace space;
  QpType qp_type = QpType::kReliable;
  State state = State::kIdle;

  Endpoint source, destination;
  const files::ShownDevice* device = nullptr;  ///< null: bound to all addresses
  Gid local_gid, remote_gid;
  std::uint8_t mtu_code = 0;  ///< of the device: 1: 256 bytes to 5: 4096
  bool off_host = false;      ///< the peer is on another host
  cm::BindingId binding;
  Nanoseconds bound_at_ns = 0;

  bool reuse_address = false, only_own_family = false;
  std::uint8_t traffic_class = 0;
  std::optional<std::uint8_t> ack_timeout;

  // One of these once it connects.
  std::optional<cm::Connection> connection;
  std::unique_ptr<cm::ServiceQuery> query;
  std::unique_ptr<cm::ServiceAnswer> answer;
  cm::LinkId link;
  bool active = false, link_fresh = false;
  Nanoseconds asked_at_ns = 0;
  /// To be sent again if the link led to nobody; gone once somebody has answered.
  std::unique_ptr<const cm::Message> first_message;

  Qpn local_qpn;  ///< of the connection; 0: not known yet
  /// Events that wait, in order, until the program has fetched what the connection brought.
  std::vector<cm::Event> held;
  Nanoseconds held_since = 0;
  bool ended_here = false;  ///< the program itself has asked for the end
  QKey qkey;
  std::uint32_t backlog_left = 0;
  std::uint32_t events_reported = 0;
  std::list<Multicast> groups;

  bool datagram() const { return qp_type == QpType::kDatagram; }
};

}  // namespace weft::ucma

// What a connection manager knows of one identifier (an rdma_cm_id of librdmacm): its addresses,
// its device, and the state machine of its connection once there is one. Owned by the manager's
// table; touched only under the manager's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cm/connection.h"
#include "cm/devices.h"
#include "cm/links.h"
#include "cm/service_query.h"
#include "cm/socket_address.h"

namespace weft::cm {

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
/// What librdmacm gives to datagram queue pairs.
inline constexpr QKey kUdpQKey{0x01234567};

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
  PortSpace space;
  QpType qp_type = QpType::kReliable;
  State state = State::kIdle;

  SocketAddress source, destination;
  const Device* device = nullptr;  ///< null: bound to all addresses
  Gid local_gid, remote_gid;
  std::uint8_t mtu_code = 0;  ///< of the device: 1: 256 bytes to 5: 4096
  bool off_host = false;      ///< the peer is on another host
  BindingId binding;
  Nanoseconds bound_at_ns = 0;

  // The owner may set these at any time.
  bool reuse_address = false;
  std::uint8_t traffic_class = 0;
  std::optional<std::uint8_t> ack_timeout;
  QKey qkey = kUdpQKey;  ///< of a datagram queue pair

  bool only_own_family = false;

  // One of these once it connects.
  std::optional<Connection> connection;
  std::unique_ptr<ServiceQuery> query;
  std::unique_ptr<ServiceAnswer> answer;
  LinkId link;
  bool active = false, link_fresh = false;
  Nanoseconds asked_at_ns = 0;
  /// To be sent again if the link led to nobody; gone once somebody has answered.
  std::unique_ptr<const Message> first_message;

  Qpn local_qpn;  ///< of the connection; 0: not known yet
  /// Events that wait, in order, until the program has fetched what the connection brought.
  std::vector<Event> held;
  Nanoseconds held_since = 0;
  bool ended_here = false;  ///< the program itself has asked for the end
  std::uint32_t backlog_left = 0;

  bool datagram() const { return qp_type == QpType::kDatagram; }
};

}  // namespace weft::cm

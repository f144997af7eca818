// What the state machines of a connection and of a service query hand back: messages to be sent to
// the peer, in order, and what the program is to be told. Plain values; the caller makes one for
// each call and empties it.
#pragma once

#include <cstdint>
#include <vector>

#include "cm/message.h"

namespace weft::cm {

/// Names an identifier of a connection manager (manager.h).
using Handle = Strong<struct HandleTag, std::uint32_t>;

struct Event {
  enum class Kind : std::uint8_t {
    kReplied,       ///< active: the peer accepts; confirm() or reject()
    kEstablished,   ///< passive: the peer confirmed
    kRejected,      ///< `reason` and private data are the peer's
    kUnreachable,   ///< no answer after all retries
    kDisconnected,  ///< by the peer, or as asked; `timed_out`: it never answered
    kTimewaitOver,  ///< no message of this connection is under way any more
    kResolved,      ///< active, datagrams: the service is there
    kRefused,       ///< active, datagrams: the service is not there, `status`
    // Of a manager, before there is a connection.
    kAddressResolved,
    kNoRoute,  ///< no device reaches the address
    kRouteResolved,
    kConnectRequest,  ///< a listener: `child` wants to connect; accept() or reject()
  };
  Kind kind;
  RejectReason reason{};
  ServiceStatus status{};
  bool timed_out = false;
  Handle child{};
  std::vector<std::byte> private_data = {};
};

struct Outcome {
  std::vector<Message> messages;
  std::vector<Event> events;
};

/// How long to wait for what. The defaults are for one host, where a message is lost only when the
/// peer cannot keep up.
struct Timing {
  Nanoseconds first_retry_ns = 100'000'000;   ///< doubles with each retry ...
  Nanoseconds last_retry_ns = 2'000'000'000;  ///< ... up to this
  unsigned retries = 15;
  Nanoseconds timewait_ns = 2'000'000'000;
};

}  // namespace weft::cm

// Which state of a queue pair may follow which, and what has to be set on the way: InfiniBand's
// table, in one place. Stateless.
//
//             +-------+      +------+      +-----+      +-----+   drain    +-----+
//   create -> | RESET | ---> | INIT | ---> | RTR | ---> | RTS | ---------> | SQD |
//             +-------+      +------+      +-----+      +-----+ <--------- +-----+
//                 ^                                      |   ^     resume
//                 |           an unreliable send fails   v   |
//                 |                                    +-----+
//              (from any state)                        | SQE |
//                 |                                    +-----+
//             +-------+
//             |  ERR  |  <--- from any state, by modify or by a fault
//             +-------+
#pragma once

#include "weft/queue_pair_attributes.h"
#include "weft/result.h"

namespace weft::transport {

struct Transition {
  bool allowed = false;
  QpAttribute required = QpAttribute::kNone;
  QpAttribute optional = QpAttribute::kNone;
};

Transition transition(Service service, QpState from, QpState to);

/// Says which attribute is missing or does not belong to this transition.
Result<void> check_transition(Service service, QpState from, QpState to, QpAttribute given);

}  // namespace weft::transport

// The attributes that a program gives when it modifies a queue pair: whether their values are
// within the bounds of the device, and taking them over. Which ones a transition needs is the
// business of transport/qp_state.h. Stateless, any thread.
#pragma once

#include "queue/queue_pair.h"
#include "weft/result.h"

namespace weft::verbs {

class Controller;

/// An error names the first attribute that is out of bounds.
Result<void> check_given(const Controller& controller, const queue::QueuePair& qp,
                         const QueuePairAttributes& attributes, QpAttribute given);
/// The other attributes stay as they are. Both locks of the queue pair are held.
void take_given(QueuePairAttributes& to, const QueuePairAttributes& from, QpAttribute given);

}  // namespace weft::verbs

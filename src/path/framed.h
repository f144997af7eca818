// The framed path: a queue pair's transport state machine over a port. One object per connected
// queue pair, owned by it; the service decides which machine.
//
// Transmission has one owner at a time: a thread that finds another transmitting leaves a note and
// goes on, so no lock is held while the port sends and frames leave in order.
#pragma once

#include <memory>

#include "port/port.h"
#include "queue/path.h"
#include "queue/queue_pair.h"

namespace weft::path {

class Context;

/// nullptr: no memory.
std::unique_ptr<queue::Path> make_framed_path(queue::QueuePair& qp, port::Port& port);
/// The same for an end-to-end context. It takes its peer anew with each start_sending().
std::unique_ptr<queue::Path> make_context_path(Context& context, port::Port& port);

}  // namespace weft::path

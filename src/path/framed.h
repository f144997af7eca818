// The framed path: a queue pair's transport state machine over a port. One object per connected
// queue pair, owned by it. `FramedPath` is what the engine sees; the service decides what is
// behind.
//
// Transmission has one owner at a time: a thread that finds another transmitting leaves a note and
// goes on, so no lock is held while the port sends and frames leave in order.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "port/port.h"
#include "queue/path.h"
#include "queue/queue_pair.h"
#include "wire/packet.h"

namespace weft::path {

class FramedPath : public queue::Path {
 public:
  FramedPath() : Path(true) {}
  bool execute_at_once(queue::QueuePair&, const SendRequest&) final { return false; }
  /// A frame for this queue pair, parsed. What it calls for goes out with transmit().
  virtual void on_frame(queue::QueuePair& qp, const wire::Packet& packet,
                        const port::Incoming& incoming, Nanoseconds now) = 0;
  /// The same for one as most are, from its bytes, which were not parsed; false: it is not, and
  /// nothing has happened. It came from the peer, unmarked.
  virtual bool on_plain_frame(queue::QueuePair& qp, std::span<const std::byte> packet) = 0;
  /// The peer says that frames of this queue pair were marked on their way: send more slowly.
  virtual void on_congestion(queue::QueuePair& qp, Nanoseconds now) = 0;
  /// Executes time-outs that were due at `looked_at`, when whatever had come was last looked at,
  /// and sends what is to be sent, for the scheduler. No lock held.
  virtual void run(queue::QueuePair& qp, Nanoseconds looked_at) = 0;
  /// Sends what is to be sent: answers first, then requests. No lock held.
  virtual void transmit(queue::QueuePair& qp, queue::Budget budget) = 0;
  /// Frames for this queue pair have come, taken by the program's own poll or by the helper. Sends
  /// what they call for; true: an acknowledgement is delayed, because the program is likely to
  /// reply at once and it can leave with that. Then call release() a moment later. No lock held.
  virtual bool answer(queue::QueuePair& qp, bool program_polls) = 0;
  virtual void release(queue::QueuePair& qp) = 0;
  /// The queue pair is about to end: the peer is told of all that was taken.
  virtual void acknowledge_all(queue::QueuePair& qp) = 0;
};

/// nullptr: no memory.
std::unique_ptr<FramedPath> make_framed_path(queue::QueuePair& qp, port::Port& port);

}  // namespace weft::path

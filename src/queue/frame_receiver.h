// The end of a queue pair at which frames arrive: what the progress engine tells the paths that
// talk through a port. Part of a Path, which lives as long; the caller has published the queue
// pair.
#pragma once

#include <cstddef>
#include <span>

#include "port/port.h"
#include "queue/queue_pair.h"
#include "wire/packet.h"

namespace weft::queue {

class FrameReceiver {
 public:
  /// A frame for this queue pair, parsed. What it calls for goes out with answer().
  virtual void on_frame(QueuePair& qp, const wire::Packet& packet, const port::Incoming& incoming,
                        Nanoseconds now) = 0;
  /// The same for one as most are, from its bytes, which were not parsed; false: it is not, and
  /// nothing has happened. It came from the peer, unmarked.
  virtual bool fast_on_frame(QueuePair& qp, std::span<const std::byte> packet) = 0;
  /// The peer says that frames of this queue pair were marked on their way: send more slowly.
  virtual void on_congestion(QueuePair& qp, Nanoseconds now) = 0;
  /// Executes time-outs that were due at `looked_at`, when whatever had come was last looked at,
  /// and sends what is to be sent, for the scheduler. No lock held.
  virtual void run(QueuePair& qp, Nanoseconds looked_at) = 0;
  /// Frames for this queue pair have come, taken by the program's own poll or by the helper. Sends
  /// what they call for; true: an acknowledgement is delayed, because the program is likely to
  /// reply at once and it can leave with that. Then call release() a moment later. No lock held.
  virtual bool answer(QueuePair& qp, bool program_polls) = 0;
  virtual void release(QueuePair& qp) = 0;
  /// The queue pair is about to end: the peer is told of all that was taken. No lock held.
  virtual void acknowledge_all(QueuePair& qp) = 0;

 protected:
  ~FrameReceiver() = default;
};

}  // namespace weft::queue

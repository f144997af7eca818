// How a queue pair reaches its peer. A Path belongs to one queue pair, is made when the queue pair
// becomes ready to receive and dies with its connection. Three kinds pass the same tests: `direct`
// (the peer is in this process, the initiator does the work), `neighbour` (the peer is in another
// process of this host) and `framed` (a transport machine over a port).
//
// Who may call: see docs/progress.md. Every call comes with the locks that it names,
// and none may be entered for one queue pair by two threads unless its lock says so.
#pragma once

#include <mutex>

#include "base/biased_lock.h"
#include "weft/access.h"
#include "weft/types.h"

namespace weft::queue {

class DatagramEnd;
class FrameReceiver;
class QueuePair;
class ReceiveWqe;
class RingReceiver;
}  // namespace weft::queue

namespace weft {
struct SendRequest;
}

namespace weft::queue {

/// The queue pair's send_lock, held; handed to the callee, which lets go of it before it returns.
using SendGuard = std::unique_lock<base::BiasedLock>;

/// What one call may do before it must hand the rest to the scheduler (at most 256 KiB inline).
struct Budget {
  std::uint64_t bytes = 256 * 1024;
  std::uint32_t requests = 1024;
};

/// What can be seen of the peer from here, for those who explain a failure to a person. It may be
/// out of date when it is read.
struct PeerView {
  // kAddressGone, kLinkDown: it may be well, but nothing leaves from here.
  enum class Peer : std::uint8_t {
    kUnknown,
    kNobody,
    kDead,
    kNotReady,
    kReady,
    kAddressGone,
    kLinkDown
  };
  enum class Key : std::uint8_t { kUnknown, kNone, kStale, kNotLive, kLive };
  Peer peer = Peer::kUnknown;
  Key key = Key::kUnknown;
  // Of a live key.
  bool same_domain = true;
  std::uint64_t base = 0, length = 0;
  Access rights = Access::kNone;
  Access peer_allows = Access::kNone;  ///< the queue pair's own rights
};

class Path {
 public:
  virtual ~Path() = default;

  /// Executes posted send work and due time-outs, up to the budget; what is left is handed to the
  /// scheduler. Takes over the send lock.
  virtual void advance(QueuePair& qp, SendGuard guard, Budget budget) = 0;

  /// The fast path of the most common requests, when nothing waits before them: executes the
  /// request without an element of the send queue. False if anything at all is out of the ordinary;
  /// then nothing has happened that the send queue would not do again. Send lock held.
  // Pure, so that the compiler does not guess which one is called: that costs four instructions.
  virtual bool fast_post(QueuePair& qp, const SendRequest& request) = 0;

  /// The queue pair becomes ready to send, with the settings that it has now. Both locks held.
  virtual void start_sending(QueuePair& qp) = 0;

  /// The queue pair left the states that send (kSendQueueError), or that send and receive (error,
  /// reset, destroy): forget what is in progress, give back receive buffers as flushed. The send
  /// queue is about to be emptied. The caller holds both locks of the queue pair.
  virtual void stop(QueuePair& qp) = 0;

  /// Never on the data path. No lock held.
  virtual PeerView look_at_peer(QueuePair& /*qp*/, RemoteKey /*key*/) { return {}; }

  /// For frames that arrive at a port; nullptr: this path takes none.
  virtual FrameReceiver* frame_receiver() { return nullptr; }
  /// For what the rings of another process bring; nullptr: this path uses none.
  virtual RingReceiver* ring_receiver() { return nullptr; }

  /// For what contexts bring and take; nullptr: this path is not of a reliable datagram queue pair.
  virtual DatagramEnd* datagram_end() { return nullptr; }

  /// The buffer of a message of which a part has come, where the initiator puts it there in parts.
  /// recv_lock.
  ReceiveWqe* partial_receive = nullptr;
};

/// Runs queue pairs later: their unfinished work, their time-outs. Implemented by the progress
/// engine; any thread, any lock of a queue pair may be held.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual Nanoseconds now() = 0;
  /// As soon as some thread makes progress.
  virtual void run_soon(QueuePair& qp) = 0;
  /// Not before `when`; an earlier time that is already set stays.
  virtual void run_at(QueuePair& qp, Nanoseconds when) = 0;
};

}  // namespace weft::queue

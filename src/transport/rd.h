// The reliable datagram as a sans-IO state machine: one end of an end-to-end context, which carries
// the messages of all reliable datagram queue pairs of this endnode to those of another one, and
// back. Its two halves are those of the reliable connection (rc.h), over the same stream; what is
// here is what differs: a message that is refused, or for which there is no receive buffer, ends
// neither the stream nor what the other queue pairs have under way. docs/reliable-datagram.md has
// the protocol and why nothing is executed twice.
//
//   queue pairs of this endnode        one of these         queue pairs of the other endnode
//
//   send queue ----+                +-----------------+            +----> receive queue, memory
//   send queue ----+-- one message  | RdRequester     |  requests  |
//   send queue ----+   of each in   | copies of their | ---------->+----> receive queue, memory
//        ^             turn         | elements        |            |
//        |                          +-----------------+ <----------+
//        +--- completions ----------| StreamSender    |  ACK, NAK, data
//                                   +-----------------+
//
//   when the responder refuses a message, or defers it:
//
//      kFlowing --- NAK, RNR NAK ---> kResync: nothing goes out but RESYNC
//         ^                              |
//         +----------- ACK of it --------+   what was not executed is sent anew
//
// The context itself is a queue pair that nobody sees: its send queue holds the copies. The
// requester runs under its send_lock, the responder under its recv_lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "network/frame.h"
#include "queue/queue_pair.h"
#include "transport/rc.h"
#include "wire/packet.h"

namespace weft::transport {

// ---------------------------------------------------------------------------------------------
// Requester

/// The queue pairs whose messages a context carries. Every call comes with the context's send_lock.
class RdWork {
 public:
  /// Copies the message that is next behind the context's send queue. False: none may go now.
  virtual bool pull(queue::QueuePair& context, Nanoseconds now) = 0;
  /// The queue pair still stands behind its message, and until Flight::release_kept() it waits
  /// before it goes.
  virtual bool keep_source(const queue::Route& route) = 0;
  /// The same, until clear(memory::Hold::kSelf).
  virtual bool hold_source(const queue::Route& route) = 0;
  /// The message is over; whoever posted it is told.
  virtual void finish(const queue::SendWqe& wqe, CompletionStatus status) = 0;
  /// It was not executed, and is offered again. Newest first.
  virtual void put_back(const queue::SendWqe& wqe) = 0;
  /// Its receiver has no buffer: nothing of this queue pair is pulled before `until`. False: it has
  /// waited often enough.
  virtual bool park(const queue::SendWqe& wqe, Nanoseconds until) = 0;
  /// The peer is dead, or does what it must not: nothing that waits will be sent.
  virtual void fail_all() = 0;

 protected:
  ~RdWork() = default;
};

struct RdRequester : RcRequester {
  enum class Phase : std::uint8_t { kFlowing, kResync };

  RdWork* work = nullptr;
  Phase phase = Phase::kFlowing;
  bool windowed = false;    ///< more than one message may be outstanding
  bool resync_due = false;  ///< RESYNC is to go out, perhaps again
  Psn resync_psn;
  std::uint32_t completed = 0;  ///< requests that the peer has executed, as its MSN counts them
};

void start(RdRequester& rq, const queue::QueuePair& context);
bool next_request(RdRequester& rq, queue::QueuePair& context, Nanoseconds now,
                  network::OutFrame& frame);
void on_response(RdRequester& rq, queue::QueuePair& context, const wire::Packet& packet,
                 Nanoseconds now);
/// No frame goes out before those that were built have left.
bool waits_for_sending(const RdRequester& rq, queue::QueuePair& context);

// What the code that both services share calls for a context.

/// Another message comes behind the send queue's last one, if one may.
bool pull(RdRequester& rq, queue::QueuePair& context, Nanoseconds now);
/// What the element says of its queue pair still holds, until Flight::release_kept().
bool keep_source(RdRequester& rq, queue::QueuePair& context, const queue::SendWqe& wqe);
/// Data for the front element. It is dropped when nobody waits for it any more.
void take_data(RdRequester& rq, queue::QueuePair& context, queue::SendWqe& wqe, std::uint32_t at,
               std::span<const std::byte> data);
/// The front element is done, or failed.
void finish_front(RdRequester& rq, queue::QueuePair& context, CompletionStatus status);
/// The responder does not execute the front element now.
void on_verdict(RdRequester& rq, queue::QueuePair& context, CompletionStatus status);
void on_receiver_not_ready(RdRequester& rq, queue::QueuePair& context, Nanoseconds until);
/// The peer is dead, or its answers make no sense: everything under way fails with this status.
void fail_context(RdRequester& rq, queue::QueuePair& context, CompletionStatus status);

// ---------------------------------------------------------------------------------------------
// Responder

/// What a reliable datagram queue pair keeps for the messages that contexts bring it: part of its
/// path, under its recv_lock.
struct RdResponder;
struct RdTarget {
  std::vector<RdResponder*> arriving;      ///< a part of a message has come there
  std::vector<queue::ReceiveWqe*> spares;  ///< taken for messages that were given up
};

/// Gives all buffers back as flushed.
void stop(RdTarget& target, queue::QueuePair& qp);
/// A buffer for a message to the queue pair.
queue::ReceiveWqe* take_receive(RdTarget& target, queue::QueuePair& qp);

struct RdResponder : RcResponder {
  RdTarget* target = nullptr;  ///< of the frame in work

  // What was said of a message that is not executed, and is said again until the peer gives it up.
  bool refuses = false;
  bool verdict_owed = false;
  Psn verdict_psn;
  wire::Aeth verdict;

  // Of the message in work. A receive buffer that a part of it lies in is under the receiver's
  // recv_lock.
  queue::QueuePair* receiver = nullptr;
  std::uint32_t receiver_epoch = 0;
  Qpn sender;
  RdTarget* listed_at = nullptr;  ///< it is in the receiver's list

  /// Writes that were given up when a part of them had come. When one comes again, it is the same
  /// use of a one-shot key.
  struct Interrupted {
    queue::QueuePair* receiver;
    Qpn sender;
    wire::Reth reth;
    std::uint64_t use;
  };
  static constexpr std::size_t kMostInterrupted = 16;
  std::vector<Interrupted> interrupted;
};

void start(RdResponder& rs, const queue::QueuePair& context);
/// `to`: the queue pair that the frame is for, its recv_lock held, and what it keeps; null: there
/// is none that would take it.
void on_request(RdResponder& rs, queue::QueuePair& context, queue::QueuePair* to, RdTarget* target,
                const wire::Packet& packet);
/// False also while a queue pair whose memory is read is in other hands: then it is scheduled.
bool next_answer(RdResponder& rs, queue::QueuePair& context, network::OutFrame& frame);
/// The payload of the answer's frame with this number could not be read.
void on_fault(RdResponder& rs, queue::QueuePair& context, Psn psn);
/// The message of which a part has come is given up; its buffer serves another. No lock of its
/// receiver is held.
void abandon_message(RdResponder& rs);

// What the code that both services share calls for a context.

void refuse(RdResponder& rs, wire::NakCode code);
void refuse_at(RdResponder& rs, Psn psn, wire::NakCode code);
void defer(RdResponder& rs, const queue::QueuePair& to);
/// Names a write that begins for one-shot keys.
std::uint64_t use_of_write(RdResponder& rs, queue::QueuePair& to, const wire::Reth& reth);

// What it does for both: rc_responder.cc.

/// Executes the frame that was expected.
void serve(RcResponder& rs, queue::QueuePair& qp, queue::QueuePair& to, const wire::Packet& packet);
/// A frame that was accepted before.
void on_copy(RcResponder& rs, queue::QueuePair& qp, const wire::Packet& packet);

}  // namespace weft::transport

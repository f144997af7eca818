// The reliable connection as a sans-IO state machine: two halves per queue pair, each a small
// struct with functions over it. No clock, socket, lock, log or random number inside: time comes
// in as an argument, frames go out through next_*(), completions go to the completion queues. What
// goes out again, when, and what is acknowledged is the business of the stream (stream_sender.h,
// stream_receiver.h); what its frames carry is the business of these two.
//
//               post                                       frame from the peer
//                 |                                                 |
//      +----------v-----------+      requests        +--------------v-----------+
//      | requester            | ------------------>  | responder                |
//      | send queue, cursor   |                      | message in progress, read|
//      +----------------------+                      | and atomic answers kept  |
//      | StreamSender         | <------------------  +--------------------------+
//      +----------------------+  ACK, NAK, responses | StreamReceiver           |
//                                                    +--------------------------+
//
// The requester runs under the queue pair's send_lock, the responder under its recv_lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "network/frame.h"
#include "queue/queue_pair.h"
#include "transport/stream_receiver.h"
#include "transport/stream_sender.h"
#include "wire/packet.h"

namespace weft::transport {

/// A long read goes out as several requests of this many answer frames, so that neither the window
/// nor the 24-bit sequence numbers limit its length.
inline constexpr std::uint32_t kReadChunkFrames = 64;

// ---------------------------------------------------------------------------------------------
// Requester

struct RcRequester {
  StreamSender stream;
  std::uint32_t cursor = 0;  ///< element being transmitted: send queue index
  std::uint32_t offset = 0;  ///< bytes of it that went out (were asked for)
  std::uint16_t reads_outstanding = 0;
  Nanoseconds delay_until = kNever;  ///< end of the delay element that the cursor stands on
};

void start(RcRequester& rq, const queue::QueuePair& qp);

/// Builds the next request frame, if there is one that may go out now. The keys of its payload are
/// kept (memory::Flight::keep) until the caller has sent it. Local work is not done while the
/// thread keeps any, since it waits for those who use memory: see waits_for_sending().
bool next_request(RcRequester& rq, queue::QueuePair& qp, Nanoseconds now, network::OutFrame& frame);

/// The cursor stands on local work, for which what was built has to be sent first.
bool waits_for_sending(const RcRequester& rq, queue::QueuePair& qp);

/// As many sends of one frame each, from the cursor on, as are new and nothing out of the ordinary.
/// Gives how many of `frames` were built; the ordinary way goes on behind them.
std::size_t fast_short_sends(RcRequester& rq, queue::QueuePair& qp, Nanoseconds now,
                             std::span<network::OutFrame> frames);
/// Behind `before`, which next_request() has just built: as many of the frames that follow in the
/// same message as need no more than a new place and number. Their memory is asked for only once.
/// Gives how many of `frames` were built; the ordinary way goes on behind them.
std::size_t fast_middles(RcRequester& rq, queue::QueuePair& qp, Nanoseconds now,
                         const network::OutFrame& before, std::span<network::OutFrame> frames);

/// ACK, NAK, read response, atomic response.
void on_response(RcRequester& rq, queue::QueuePair& qp, const wire::Packet& packet,
                 Nanoseconds now);

/// Time-outs that are due at `now`.
void on_timer(RcRequester& rq, queue::QueuePair& qp, Nanoseconds now);

/// The port did not take this frame of this element nor those after it, `reads` of which were
/// requests for data: they are offered again after a pause.
void on_busy(RcRequester& rq, queue::QueuePair& qp, std::uint32_t element, Psn psn,
             std::uint32_t reads, Nanoseconds now);

/// The payload of a frame of this element could not be read: the memory has gone.
void on_fault(RcRequester& rq, queue::QueuePair& qp, std::uint32_t element);

/// The send queue is about to be emptied.
void stop(RcRequester& rq, queue::QueuePair& qp);

/// Everything that went out is acknowledged and nothing is half sent.
bool drained(const RcRequester& rq);

/// What is to be sent is short, and something is under way whose acknowledgement was asked for, or
/// the program sends in bursts: it may wait for more, to leave together.
bool may_gather(const RcRequester& rq, queue::QueuePair& qp, bool in_bursts);

/// When on_timer or next_request next needs to be called although nothing arrives.
Nanoseconds next_deadline(const RcRequester& rq);

// ---------------------------------------------------------------------------------------------
// Responder

/// A read being answered, or a read or atomic that was answered and may be asked for again.
struct RcAnswer {
  enum class Kind : std::uint8_t { kRead, kAtomic, kAtomicWrite };
  Kind kind = Kind::kRead;
  bool pending = false;
  bool answered = false;  ///< went out once: what is pending now is a repetition
  Psn first_psn;
  std::uint32_t frames = 0;
  std::uint32_t next_frame = 0;  ///< to be sent next, while pending
  std::uint32_t part_frame = 0;  ///< where the part that was asked for begins
  std::uint32_t part_end = 0;    ///< and the byte where it ends
  std::uint32_t length = 0;
  RemoteKey key;
  std::uint64_t address = 0;
  std::uint64_t use = 0;     ///< names the operation for one-shot keys
  std::uint64_t result = 0;  ///< atomics: what was there before
  std::uint32_t msn = 0;
  std::uint32_t epoch = 0;             ///< of the target; contexts
  queue::QueuePair* target = nullptr;  ///< whose memory is read
};

struct RcResponder {
  // Which message is being received.
  //
  //            First of a send              First of a write
  //   kNone ------------------> kSend   kNone ------------> kWrite
  //     ^  ^---- Only                ^
  //     +-------- Last --------------+------------------- Last (from kWrite)
  enum class Message : std::uint8_t { kNone, kSend, kWrite };

  StreamReceiver stream;
  Message message = Message::kNone;
  bool heard_from_peer = false;
  std::uint8_t answers_first = 0, answers_count = 0;
  std::uint32_t offset = 0;  ///< bytes of the message received
  std::uint32_t write_length = 0;
  RemoteKey write_key;
  std::uint64_t write_address = 0;
  std::uint64_t write_use = 0;
  // A long read comes as several requests of which all but the last ask for no acknowledgement: to
  // a one-shot key they are one operation.
  bool read_goes_on = false;
  Psn read_psn;  ///< of the request that continues it
  RemoteKey read_key;
  std::uint64_t read_address = 0;
  std::uint64_t read_use = 0;
  queue::ReceiveWqe* receive = nullptr;  ///< taken for the message in progress
  std::unique_ptr<RcAnswer[]> answers;   ///< ring of max_dest_rd_atomic, made at the first read
};

void start(RcResponder& rs, const queue::QueuePair& qp);

/// Any request frame from the peer.
void on_request(RcResponder& rs, queue::QueuePair& qp, const wire::Packet& packet);

/// The same for most frames, in less time, and from their bytes: BTH to pad. False: it is not one
/// of those, and nothing has happened.
bool fast_on_request(RcResponder& rs, queue::QueuePair& qp, std::span<const std::byte> packet);

/// Builds the next answer: read responses and atomic results in order, then ACK or NAK. The key of
/// a read response is kept (memory::Flight::keep) until the caller has sent the frame; it has room
/// for one more.
bool next_answer(RcResponder& rs, queue::QueuePair& qp, network::OutFrame& frame);

/// The payload of the answer's frame with this number could not be read.
void on_fault(RcResponder& rs, queue::QueuePair& qp, Psn psn);

/// All that is owed is a plain acknowledgement, which may wait for company.
bool owes_only_ack(const RcResponder& rs, const queue::QueuePair& qp);
/// The queue pair is about to end: what was taken and not acknowledged, since nobody asked, is now.
void acknowledge_all(RcResponder& rs, const queue::QueuePair& qp);
/// Nothing is owed.
bool owes_nothing(const RcResponder& rs, const queue::QueuePair& qp);

/// Gives back the receive buffer of an unfinished message, as flushed.
void stop(RcResponder& rs, queue::QueuePair& qp);

}  // namespace weft::transport

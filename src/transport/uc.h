// The unreliable connection as a sans-IO state machine: messages go out once, nothing is
// acknowledged, a message with a missing frame is dropped whole. Requester under the queue pair's
// send_lock, responder under its recv_lock.
//
// A stranger who knows the number of a queue pair and forges its peer's address can try keys. After
// some wrong ones (guess_limit.h) only writes that are in step with what was served are looked at;
// others are dropped, before they disturb the message in progress: the peer goes on, the stranger
// would have to know the sequence number too.
#pragma once

#include <cstdint>

#include "network/frame.h"
#include "queue/queue_pair.h"
#include "transport/guess_limit.h"
#include "wire/packet.h"

namespace weft::transport {

struct UcRequester {
  Psn next_new;
  std::uint32_t cursor = 0;  ///< element being transmitted: send queue index
  std::uint32_t offset = 0;  ///< bytes of it that went out
  Nanoseconds delay_until = kNever;
};

void start(UcRequester& rq, const queue::QueuePair& qp);
bool next_request(UcRequester& rq, queue::QueuePair& qp, Nanoseconds now, network::OutFrame& frame);
/// The port took every frame that was built: elements that are all out complete, since nobody will
/// acknowledge them.
void on_sent(UcRequester& rq, queue::QueuePair& qp);
/// The payload of a frame of this element could not be read: the memory has gone.
void on_fault(UcRequester& rq, queue::QueuePair& qp, std::uint32_t element);
void stop(UcRequester& rq, queue::QueuePair& qp);

struct UcResponder {
  // kDropping: the message in progress lost a frame; everything until the next First is dropped.
  enum class Message : std::uint8_t { kNone, kSend, kWrite, kDropping };
  Message message = Message::kNone;
  Psn expected;
  std::uint32_t offset = 0;
  std::uint32_t write_length = 0;
  std::uint64_t write_use = 0;
  RemoteKey write_key;
  std::uint64_t write_address = 0;
  queue::ReceiveWqe* receive = nullptr;  ///< kept across a dropped message: it was not filled
  GuessLimit guesses;
  Psn in_step;  ///< follows the last frame that had a right key, or came in step itself
};

void start(UcResponder& rs, const queue::QueuePair& qp);
void on_request(UcResponder& rs, queue::QueuePair& qp, const wire::Packet& packet, Nanoseconds now);
void stop(UcResponder& rs, queue::QueuePair& qp);

}  // namespace weft::transport

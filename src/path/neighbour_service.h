// The target's side of a link between processes: executes the records that an initiator put into
// its ring, with this process's own keys and buffers, and leaves the answers in the records.
// Everything in a record is hostile. Made by whoever polls, under Presence::receive_lock, for one
// turn at one ring; takes the recv_lock of queue pairs, one at a time.
#pragma once

#include <cstdint>

#include "host/link.h"
#include "memory/flight.h"
#include "path/directory.h"
#include "path/neighbour_record.h"
#include "queue/ring_receiver.h"

namespace weft::path {

/// Whom the last record of a link was for. Remembered by whoever polls the link, and good until the
/// epoch of the queue pair moves.
struct LastServed {
  host::Inbound* link = nullptr;
  queue::QueuePair* qp = nullptr;
  const queue::CompletionQueue* cq = nullptr;  ///< of what it receives
  queue::RingInbox* inbox = nullptr;           ///< null: it takes datagrams
  const Gid* gid = nullptr;                    ///< the initiator's
  std::uint32_t epoch = 0;
  std::uint32_t destination = ~std::uint32_t{0}, source = 0;
  unsigned port = 0;

  bool is_for(const host::Inbound& from, const host::RecordHeader& header) const {
    return link == &from && header.destination == destination && header.source == source &&
           unsigned{header.flags} >> kPortShift == port;
  }
};

/// Executes the next record of the link by a shorter way, if it is a send, whole, in turn and for
/// the queue pair of the last one. The ring is ready(). False: nothing was done.
bool fast_serve_send(host::Inbound& link, const LastServed& last);
/// The same for the one who polls the queue pair's completion queue, and has found it empty: its
/// completion goes straight to *out. False: nothing was done, or the completion is in the queue.
bool receive_short_send(host::Inbound& link, const LastServed& last, Completion* out);

/// Keeps the queue pair of the last record, published and with its lock, for the next record: most
/// often that is for the same.
class RecordService {
 public:
  RecordService(QueuePairTable& table, host::Inbound& link, LastServed& last)
      : table_(table), link_(link), last_(last) {}
  ~RecordService() { leave(); }
  RecordService(const RecordService&) = delete;
  RecordService& operator=(const RecordService&) = delete;

  /// What a turn at a ring did.
  struct Turn {
    std::uint32_t lines = 0;   ///< of records that were taken
    std::uint32_t unseen = 0;  ///< requests that a peer waits for, and the program never sees
  };
  /// A bounded number of the records that wait; `yields()` is asked between two of them.
  template <class Yields>
  Turn serve_some(Yields yields) {
    Turn turn;
    host::RingConsumer::Taken taken;
    for (int n = 0; n < kRecordsPerTurn && messages_ < kMessagesPerTurn; ++n) {
      if (!link_.ring.ready() || (n > 0 && yields()) || !link_.ring.take_ready(&taken)) break;
      turn.lines += taken.header.lines;
      serve(taken);
      if (is_unseen(taken.header.kind)) [[unlikely]]
        ++turn.unseen;
    }
    return turn;
  }
  void serve(const host::RingConsumer::Taken& taken);

 private:
  static constexpr int kRecordsPerTurn = 256;
  /// Then the program gets its turn, to take completions and to post fresh buffers: its peer, who
  /// is told at once what came, could go on for as long as there are buffers.
  static constexpr std::uint32_t kMessagesPerTurn = 512;

  static bool is_unseen(std::uint8_t kind) {
    return kind >= static_cast<std::uint8_t>(Ask::kRead) &&
           kind <= static_cast<std::uint8_t>(Ask::kFetchAdd);
  }
  void fan_out(const host::RingConsumer::Taken& taken);
  bool enter(const host::RecordHeader& header);
  bool look_up(const host::RecordHeader& header);
  void hold(queue::QueuePair& qp) {
    qp.recv_lock.lock();
    qp_ = &qp;
    left_ = kRunBytes;
  }
  void leave() {
    if (qp_ == nullptr) return;
    qp_->recv_lock.unlock();
    memory::Flight::clear(memory::Hold::kPeer);
    qp_ = nullptr;
  }
  /// What may be done under one publication of a queue pair (memory/flight.h), in bytes.
  static constexpr std::int64_t kRunBytes = 128 * 1024;

  QueuePairTable& table_;
  host::Inbound& link_;
  LastServed& last_;
  queue::QueuePair* qp_ = nullptr;  ///< published; its recv_lock is held
  std::int64_t left_ = 0;           ///< bytes that may follow before others get their turn
  std::uint32_t messages_ = 0;      ///< parts of messages that were executed so far
};

}  // namespace weft::path

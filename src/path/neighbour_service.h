// The target's side of a link between processes: executes the records that an initiator put into
// its ring, with this process's own keys and buffers, and leaves the answers in the records.
// Everything in a record is hostile. Made by whoever polls, under Presence::receive_lock, for one
// turn at one ring; takes the recv_lock of queue pairs, one at a time.
#pragma once

#include <cstdint>

#include "host/link.h"
#include "path/directory.h"
#include "path/neighbour_path.h"
#include "path/neighbour_record.h"

namespace weft::path {

/// Whom the last record of a link was for. Remembered by whoever polls the link, and good until the
/// epoch of the queue pair moves.
struct LastServed {
  const host::Inbound* link = nullptr;
  queue::QueuePair* qp = nullptr;
  NeighbourInbox* inbox = nullptr;  ///< null: it takes datagrams
  const Gid* gid = nullptr;         ///< the initiator's
  std::uint32_t epoch = 0;
  std::uint32_t destination = ~std::uint32_t{0}, source = 0;
  unsigned port = 0;

  bool is_for(const host::Inbound& from, const host::RecordHeader& header) const {
    return link == &from && header.destination == destination && header.source == source &&
           unsigned{header.flags} >> kPortShift == port;
  }
};

/// Keeps the queue pair of the last record, published and with its lock, for the next record: most
/// often that is for the same.
class RecordService {
 public:
  RecordService(QueuePairTable& table, host::Inbound& link, LastServed& last)
      : table_(table), link_(link), last_(last) {}
  ~RecordService() { leave(); }
  RecordService(const RecordService&) = delete;
  RecordService& operator=(const RecordService&) = delete;

  void serve(const host::RingConsumer::Taken& taken);
  /// Parts of messages that were executed so far.
  std::uint32_t messages() const { return messages_; }

 private:
  void fan_out(const host::RingConsumer::Taken& taken);
  bool enter(const host::RecordHeader& header);
  bool look_up(const host::RecordHeader& header);
  void hold(queue::QueuePair& qp);
  void leave();

  QueuePairTable& table_;
  host::Inbound& link_;
  LastServed& last_;
  queue::QueuePair* qp_ = nullptr;  ///< published; its recv_lock is held
  std::int64_t left_ = 0;           ///< bytes that may follow before others get their turn
  std::uint32_t messages_ = 0;
};

}  // namespace weft::path

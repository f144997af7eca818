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

/// Keeps the queue pair of the last record, published and with its lock, for the next record: most
/// often that is for the same.
class RecordService {
 public:
  RecordService(QueuePairTable& table, host::Inbound& link) : table_(table), link_(link) {}
  ~RecordService() { leave(); }
  RecordService(const RecordService&) = delete;
  RecordService& operator=(const RecordService&) = delete;

  void serve(const host::RingConsumer::Taken& taken);

 private:
  std::uint16_t status_of(const host::RingConsumer::Taken& taken);
  void fan_out(const host::RingConsumer::Taken& taken);
  bool enter(const host::RecordHeader& header);
  void leave();

  QueuePairTable& table_;
  host::Inbound& link_;
  queue::QueuePair* qp_ = nullptr;   ///< published; its recv_lock is held
  NeighbourInbox* inbox_ = nullptr;  ///< null: it takes datagrams
  const Gid* gid_ = nullptr;         ///< the initiator's
  std::uint32_t destination_ = 0, source_ = 0;
  unsigned port_ = 0;
  std::int64_t left_ = 0;  ///< bytes that may follow before others get their turn
};

}  // namespace weft::path

// Reaches a peer in another process of the host. The initiator does the work where it can: reads
// and writes go straight to the peer's memory, in an arena that both have mapped or by system call;
// what has to happen at the peer (sends, immediates, atomics on other memory) goes through the
// link's ring and is finished by whoever polls there. docs/same-host.md tells how they keep order.
#pragma once

#include <memory>
#include <span>

#include "host/link.h"
#include "memory/grant.h"
#include "path/initiator.h"
#include "path/neighbour_record.h"

namespace weft::path {

/// An answer, taken out of the ring.
struct RingAnswer {
  std::uint32_t cookie;
  std::uint16_t status;
  std::uint8_t messages;  ///< in the record
  std::uint8_t executed;  ///< of those, when not all were
  std::uint64_t old_value;
  std::uint32_t bytes;                ///< of data
  std::unique_ptr<std::byte[]> data;  ///< of a read
};

/// The receiving half of a connection to another process. recv_lock.
struct NeighbourInbox {
  std::uint32_t expected = 0;            ///< sequence of the next record; begins with the PSN
  queue::ReceiveWqe* receive = nullptr;  ///< of a message in progress
  std::uint32_t filled = 0;              ///< bytes of it that have come
  std::uint64_t use = 0;                 ///< name of the RDMA operation in progress
  memory::Grant<LocalKey> into;          ///< the memory that buffers were in of late
  LocalKey missed;                       ///< a key that `into` was not, the last time
  SrqNumber srq;                         ///< extended connections: of the next message
};

class NeighbourPath : public Initiator {
 public:
  /// The peer's process answered some records, oldest first. Takes over the send lock.
  virtual void on_answers(queue::QueuePair& qp, queue::SendGuard guard,
                          std::span<RingAnswer> answers) = 0;
  /// The peer's process is gone. What it has not answered fails after a pause: programs that have
  /// said all to each other do not end at the same moment, and the one that is left must not see
  /// its spare work flushed before it has ended. A queue pair without such work stays as it is
  /// until it is used, as on a wire. The send lock is free.
  virtual void schedule_peer_death(queue::QueuePair& qp) = 0;
  const host::Outbound& link() const { return *link_; }
  bool crosses_processes() const final { return true; }

  NeighbourInbox inbox;

 protected:
  NeighbourPath(const queue::QueuePair& qp, std::shared_ptr<host::Outbound> link)
      : Initiator(qp), link_(std::move(link)) {
    // As on the wire: what belongs to another connection of the same two does not fit.
    inbox.expected = qp.attributes.receive_psn.value();
  }
  const std::shared_ptr<host::Outbound> link_;
};

std::unique_ptr<queue::Path> make_neighbour_path(queue::QueuePair& qp,
                                                 std::shared_ptr<host::Outbound> link,
                                                 host::ProcessPage& page);

}  // namespace weft::path

// The end of a queue pair at which a neighbour's records arrive, and the answers to its own: what
// those who empty the rings of another process tell the paths that use them. Part of a Path, which
// lives as long; the caller has published the queue pair.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "memory/grant.h"
#include "queue/path.h"
#include "queue/queue_pair.h"

namespace weft::host {
struct Outbound;
}

namespace weft::queue {

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
struct RingInbox {
  std::uint32_t expected = 0;    ///< sequence of the next record; begins with the PSN
  std::uint32_t filled = 0;      ///< bytes that have come of Path::partial_receive
  std::uint64_t use = 0;         ///< name of the RDMA operation in progress
  memory::Grant<LocalKey> into;  ///< the memory that buffers were in of late
  LocalKey missed;               ///< a key that `into` was not, the last time
  SrqNumber srq;                 ///< extended connections: of the next message
};

class RingReceiver {
 public:
  /// The peer's process answered some records, oldest first. Takes over the send lock.
  virtual void on_answers(QueuePair& qp, SendGuard guard, std::span<RingAnswer> answers) = 0;
  /// The process at the other end of this link is gone; nothing happens if it is not the one that
  /// this connection uses. What the peer has not answered fails after a pause: programs that have
  /// said all to each other do not end at the same moment, and the one that is left must not see
  /// its spare work flushed before it has ended. A queue pair without such work stays as it is
  /// until it is used, as on a wire. The send lock is free.
  virtual void on_link_lost(QueuePair& qp, const host::Outbound& link) = 0;

  RingInbox inbox;

 protected:
  ~RingReceiver() = default;
};

}  // namespace weft::queue

// One raw queue pair, many receive queues: which queue a packet goes to is decided by a hash of its
// addresses and ports (receive-side scaling), so that packets of one flow stay together. Made
// before its queue pair and gone after it. The table never changes; select() under the queue pair's
// recv_lock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "queue/queue_pair.h"
#include "wire/raw_packet.h"
#include "wire/toeplitz.h"

namespace weft::queue {

class ReceiveFanout {
 public:
  struct Member {
    ReceiveQueue* receives = nullptr;
    CompletionQueue* cq = nullptr;
    PdId pd;
  };

  /// `table` has a power of two of members, of which several may be the same.
  ReceiveFanout(std::vector<Member> table, const wire::ToeplitzKey& key, wire::HashedFields fields)
      : table_(std::move(table)), key_(key), fields_(fields) {}

  /// The queue pair's receives, recv_cq and pd become those of the packet's queue.
  void select(QueuePair& qp, const wire::RawPacket& packet) const {
    const std::uint32_t hash = wire::hash_of(packet, fields_, key_);
    const Member& member = table_[hash & (table_.size() - 1)];
    qp.shared_receive = member.receives;
    qp.recv_cq = member.cq;
    qp.pd = member.pd;
  }

 private:
  const std::vector<Member> table_;
  const wire::ToeplitzKey key_;
  const wire::HashedFields fields_;
};

}  // namespace weft::queue

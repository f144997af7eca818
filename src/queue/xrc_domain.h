// A domain of extended reliable connections (XRC): shared receive queues that share target queue
// pairs. Each message names the receive queue that it is for, and brings its own completion queue
// and protection domain along. Owned by the verbs that made it, and by its queue pairs; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/lock.h"
#include "queue/queue_pair.h"
#include "weft/types.h"

namespace weft::queue {

class XrcDomain {
 public:
  struct Member {
    ReceiveQueue* receives = nullptr;
    CompletionQueue* cq = nullptr;
    PdId pd;
    std::shared_ptr<const void> owner;  ///< keeps all of them
  };

  void add(SrqNumber number, Member member);
  /// No message that comes later finds it. One that is in work may still end there: its memory
  /// stays until the domain has no target queue pair any more.
  void remove(SrqNumber number);

  void add_target();
  void remove_target();

  /// Makes the receive queue that of the message in work; false: there is none of that number, and
  /// nothing has changed. With the recv_lock of the queue pair, which is a target of this domain.
  bool select(QueuePair& qp, SrqNumber number);

 private:
  base::Lock lock_;
  std::unordered_map<SrqNumber, Member> members_;
  std::vector<Member> removed_;
  std::uint32_t targets_ = 0;
};

}  // namespace weft::queue

// The receive queues of a raw queue pair that has several (queue/receive_fanout.h), with what they
// stand on. Shared by the queue pairs that are made with it; never changes.
#pragma once

#include <memory>
#include <vector>

#include "queue/receive_fanout.h"
#include "verbs/objects.h"

namespace weft::verbs {

struct FanoutObject : std::enable_shared_from_this<FanoutObject> {
  struct Member {
    std::shared_ptr<SrqObject> srq;
    std::shared_ptr<CqObject> cq;
  };
  FanoutObject(std::vector<Member> of, const wire::ToeplitzKey& key, wire::HashedFields fields)
      : members(std::move(of)), fanout(table_of(members), key, fields) {}

  static std::vector<queue::ReceiveFanout::Member> table_of(const std::vector<Member>& members) {
    std::vector<queue::ReceiveFanout::Member> table;
    for (const Member& each : members) {
      table.push_back({each.srq.get(), &each.cq->queue, each.srq->pd->id});
    }
    return table;
  }

  const std::vector<Member> members;
  const queue::ReceiveFanout fanout;
};

}  // namespace weft::verbs

// The ways in which verbs programs sleep for completion events. Each returns when events were taken
// and acknowledged, with their completion queues; the caller then asks for new events and polls.
// Belongs to the event loop of one thread; the channels outlive it.
#pragma once

#include <poll.h>

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "verbs_node.h"

namespace weft::bench {

enum class WaitMode {
  kBlock,  ///< in ibv_get_cq_event itself
  kEpoll,  ///< in epoll_wait, on channels with O_NONBLOCK
  kPoll,   ///< in poll(), on channels that block, and then ibv_get_cq_event
  kSpin,   ///< never: looks into the completion queues again and again
};

class ChannelWaiter {
 public:
  ChannelWaiter(WaitMode mode, std::deque<Completions>& all);

  const std::vector<const Completions*>& wait();

 private:
  /// Takes one event; false: there is none, and the channel does not block.
  bool take_event(const Completions& from);
  void wait_epoll();
  void wait_poll();

  const WaitMode mode_;
  std::deque<Completions>& all_;
  int epoll_ = -1;
  std::vector<pollfd> polled_;
  std::vector<const Completions*> ready_;
};

}  // namespace weft::bench

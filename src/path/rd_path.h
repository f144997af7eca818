// The path of a reliable datagram queue pair on the network: hands each message to the end-to-end
// context of its destination, and lets them complete in the order in which they were posted. A
// message that waits, or fails, holds up those behind it only in telling. One per queue pair.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/number_map.h"
#include "path/context.h"
#include "path/contexts.h"
#include "queue/datagram_end.h"
#include "queue/path.h"
#include "queue/queue_pair.h"
#include "transport/rd.h"

namespace weft::path {

class RdPath final : public queue::Path, public queue::DatagramEnd {
 public:
  RdPath(const queue::QueuePair& qp, Contexts& contexts)
      : contexts_(contexts), cursor_(qp.sq.head()) {}

  void advance(queue::QueuePair& qp, queue::SendGuard guard, queue::Budget budget) override;
  bool fast_post(queue::QueuePair&, const SendRequest&) override { return false; }
  void start_sending(queue::QueuePair& qp) override { cursor_ = qp.sq.head(); }
  void stop(queue::QueuePair& qp) override;
  queue::DatagramEnd* datagram_end() override { return this; }

  // For contexts, with the queue pair's send_lock:
  void on_done(queue::QueuePair& qp, std::uint32_t index, const Context& context,
               CompletionStatus status);
  void put_back(queue::QueuePair& qp, std::uint32_t index, Context& context);
  bool park(const queue::QueuePair& qp, const Context& context, Nanoseconds until);

  /// With the queue pair's recv_lock.
  transport::RdTarget& target() { return target_; }

 private:
  enum class Reach : std::uint8_t { kGoOn, kWait, kOpenContext };
  /// Contexts that got something; more than fit are left to the scheduler.
  struct Touched {
    static constexpr std::size_t kMost = 16;
    Context* contexts[kMost];
    std::size_t count = 0;
    void add(queue::QueuePair& qp, Context& context);
  };

  Reach reach(queue::QueuePair& qp, Touched& touched);
  Reach reach_local(queue::QueuePair& qp, queue::SendWqe& wqe);
  Line* line_to(queue::QueuePair& qp, Context& context);
  bool append(queue::QueuePair& qp, Context& context);
  void release(Line& line);
  void fail_waiting(queue::QueuePair& qp, Line& line);
  void fail_lines_of_dead(queue::QueuePair& qp);
  void fail_element(queue::SendWqe& wqe, CompletionStatus status);
  void retire(queue::QueuePair& qp);

  Contexts& contexts_;
  std::uint32_t cursor_;     ///< elements before it are with their contexts, or done
  std::uint32_t reads_ = 0;  ///< of them, reads and atomics that are not done
  Nanoseconds delay_until_ = 0;
  bool told_drained_ = false;
  base::NumberMap<Line> lines_;  ///< in use, by the context's number
  std::vector<Line*> used_, free_;
  std::vector<std::unique_ptr<Line>> all_;
  transport::RdTarget target_;
};

}  // namespace weft::path

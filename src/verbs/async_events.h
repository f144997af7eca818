// The asynchronous events of one controller: what happens to its queue pairs, shared receive queues
// and completion queues is put into the event queue of whoever has the object. Part of the
// controller. Any thread, any lock held: an event is queued, nothing is done about it here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/lock.h"
#include "host/fork.h"
#include "obs/counters.h"
#include "queue/queue_pair.h"
#include "verbs/event_queue.h"
#include "weft/result.h"
#include "weft/verbs.h"

namespace weft::verbs {

class AsyncEvents final : public queue::EventSink {
 public:
  /// Events that find no room in their queue are counted.
  explicit AsyncEvents(obs::Counters& counters) : counters_(counters) {}

  void on_event(queue::QueuePair& qp, queue::QpEvent event) override;
  void on_limit_reached(queue::ReceiveQueue& srq) override;
  void on_completion_overrun(std::uint32_t number);
  /// A consumer of kernel kind has not mapped what an access of its controller has reached.
  void on_unmapped_page(std::uint64_t address);

  /// From the default queue, which gets every event that is not routed.
  std::optional<AsyncEvent> next();
  /// Readable while such an event waits; made at the first call.
  Result<int> fd() { return default_->fd(); }

  /// For each who opens the controller. The first gets the default queue; any other one gets a
  /// queue of its own, for the objects that it routes there.
  std::shared_ptr<EventQueue> claim();
  /// Events about this queue pair, or about the object of this number, go there from now on.
  void route(Qpn qpn, std::uint32_t number, std::shared_ptr<EventQueue> queue);
  /// The object is destroyed: its route and its waiting events go too. Events of another number, or
  /// of another kind, stay.
  void forget(Qpn qpn, std::uint32_t number);

 private:
  void push(const AsyncEvent& event);

  /// The parent's: its locks may be held for ever.
  bool inherited() const { return generation_ != host::fork_generation(); }

  const unsigned generation_ = host::fork_generation();
  obs::Counters& counters_;
  const std::shared_ptr<EventQueue> default_ = std::make_shared<EventQueue>();
  base::Lock lock_;
  bool claimed_ = false;
  /// By queue pair and number; an object that is not here has default_.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::shared_ptr<EventQueue>> routes_;
};

}  // namespace weft::verbs

// What is behind the handles of include/weft/verbs.h. Each keeps its parents alive.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

#include "base/lock.h"
#include "host/event_signal.h"
#include "host/wait_set.h"
#include "queue/completion_queue.h"
#include "queue/xrc_domain.h"
#include "verbs/controller.h"
#include "verbs/srq_object.h"

namespace weft::verbs {

struct FanoutObject;
struct QpParents;

struct PdObject {
  /// Shared with the last queue pair, if its parents are the same. Null without memory.
  std::shared_ptr<const QpParents> share(QpParents parents);

  std::shared_ptr<Controller> controller;
  PdId id;
  memory::Vmm* space = nullptr;  ///< the process that it belongs to
  base::Lock parents_lock;
  std::weak_ptr<const QpParents> last_parents;
};

/// Events of completion queues, behind a descriptor.
struct CompChannelObject {
  ~CompChannelObject();
  void push(std::uint32_t cq_number);
  std::optional<std::uint32_t> pop();
  /// While one lives, its thread looks for events of the channel, and then calls pop().
  class Fetch;
  /// The completion queue goes: its events with it.
  void forget(std::uint32_t cq_number);
  bool has_events();
  /// With the lock held.
  void keep_signal_in_step();
  /// The program does not wait by other means first, as far as is known.
  bool waits_in_call() const { return found_in_a_row.load(std::memory_order_relaxed) < kMostFound; }
  /// An event was there when the program asked for it.
  void count_found() {
    const unsigned found = found_in_a_row.load(std::memory_order_relaxed);
    if (found < kMostFound) found_in_a_row.store(found + 1, std::memory_order_relaxed);
  }

  static constexpr unsigned kMostFound = 64;

  std::shared_ptr<Controller> controller;
  host::EventSignal signal;  ///< raised while there are events
  host::WaitSet set;         ///< the program's descriptor; who finds nothing waits without the lock
  base::Lock lock;
  std::deque<std::uint32_t> events;
  bool raised = false;                  ///< the signal
  const void* fetcher = nullptr;        ///< the thread that finds events without it
  std::atomic<std::uint32_t> armed{0};  ///< of its queues
  /// Events that nobody had to wait for in our call, since somebody did.
  std::atomic<unsigned> found_in_a_row{kMostFound};
};

class CompChannelObject::Fetch {
 public:
  explicit Fetch(CompChannelObject& channel);
  ~Fetch();
  Fetch(const Fetch&) = delete;
  Fetch& operator=(const Fetch&) = delete;

 private:
  CompChannelObject& channel_;
};

struct CqObject final : queue::CompletionListener {
  CqObject(std::shared_ptr<Controller> owner, std::uint32_t capacity,
           std::shared_ptr<CompChannelObject> where);
  ~CqObject() override;
  void request_notify(bool solicited_only);
  void on_completion_event(queue::CompletionQueue& cq) override;
  void on_completion_overrun(queue::CompletionQueue& cq) override;

  std::shared_ptr<Controller> controller;
  std::shared_ptr<CompChannelObject> channel;
  std::uint32_t number;
  queue::CompletionQueue queue;

 private:
  void count_fired();
};

struct XrcObject : queue::XrcDomain {
  std::shared_ptr<Controller> controller;
};

/// The objects that a queue pair was made of, which it keeps alive: thousands of queue pairs share
/// them.
struct QpParents {
  std::shared_ptr<PdObject> pd;
  std::shared_ptr<CqObject> send_cq;
  std::shared_ptr<CqObject> receive_cq;
  std::shared_ptr<SrqObject> shared_receive;
  std::shared_ptr<XrcObject> xrc;  ///< of a target
  std::shared_ptr<const FanoutObject> fanout = nullptr;

  bool operator==(const QpParents&) const = default;
};

struct QpObject {
  ~QpObject() {
    if (core == nullptr) return;
    controller().destroy_queue_pair(*core);
    if (parents->xrc != nullptr) parents->xrc->remove_target();
  }

  Controller& controller() const { return *parents->pd->controller; }

  std::shared_ptr<const QpParents> parents;
  queue::QueuePair* core = nullptr;
};

}  // namespace weft::verbs

// The core of a queue pair: its identity, its two work queues and the settings that the services
// read. An idle one is small: the rings come with the first post, the path with the connection.
//
// Storage is type-stable: a destroyed queue pair's memory becomes another queue pair, never
// something else, so a peer that raced with the destruction may still read `state` and `identity`.
//
// Locks, outermost first: send_lock (send queue, requester), recv_lock (responder), then the
// receive queue's, then the completion queue's. A thread may hold the send_lock of one queue pair
// and the recv_lock of another, never two of a kind, but for an end-to-end context: its locks come
// before those of the queue pairs whose messages it carries.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/biased_lock.h"
#include "host/public_tables.h"
#include "memory/key_table.h"
#include "obs/counters.h"
#include "queue/completion_queue.h"
#include "queue/path.h"
#include "queue/receive_queue.h"
#include "queue/send_queue.h"
#include "weft/queue_pair_attributes.h"

namespace weft::queue {

class XrcDomain;

enum class QpEvent : std::uint8_t {
  kRequestError,        ///< the peer broke the protocol
  kAccessError,         ///< the peer presented a key that does not allow what it asked
  kCommEstablished,     ///< the first frame came while ready to receive
  kSendQueueDrained,    ///< after a modify to SQD
  kLastReceiveReached,  ///< error state reached with a shared receive queue: no more is taken
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  /// Any thread, any lock held: queue it, do not act on it.
  virtual void on_event(QueuePair& qp, QpEvent event) = 0;
  virtual void on_limit_reached(ReceiveQueue& srq) = 0;
};

/// What all queue pairs of one controller share. Outlives them.
struct Shared {
  memory::KeyTable* keys = nullptr;
  obs::Counters* counters = nullptr;
  Scheduler* scheduler = nullptr;
  EventSink* events = nullptr;
  /// An I/O adapter refuses incoming RDMA (B1.2).
  bool serves_rdma = true;
};

class QueuePair {
 public:
  // Identity, fixed from creation to destruction.
  Qpn qpn;
  Service service = Service::kReliableConnection;
  bool signal_all = false;
  bool extended_initiator = false;  ///< each request names a shared receive queue of the peer's
  std::atomic<QpState> state{QpState::kReset};
  /// Advances whenever the connection or the right to receive changes: a peer that remembers it
  /// knows whether this still is the queue pair that it knew.
  std::atomic<std::uint32_t> epoch{0};
  PdId pd;
  Gid local_gid;
  memory::Vmm* space = nullptr;  ///< the process that opened it: inline data is read there
  Shared* shared = nullptr;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  ReceiveQueue* shared_receive = nullptr;
  /// A target of extended connections: pd, recv_cq and shared_receive are those of the message in
  /// work (queue/xrc_domain.h). Null: an ordinary queue pair.
  XrcDomain* xrc_domain = nullptr;
  void* owner = nullptr;                   ///< the verbs object, for events
  host::PublicQueuePair* shown = nullptr;  ///< what neighbours on the host see of it

  base::BiasedLock send_lock;
  base::BiasedLock recv_lock;
  QueuePairAttributes attributes;
  SendQueue sq;
  std::unique_ptr<ReceiveQueue> rq;  ///< null where all buffers come from shared queues
  std::unique_ptr<Path> path;

  // Names of RDMA operations, for one-shot keys: none is given twice, whatever becomes of the
  // connection or of the queue pair. They begin at random, so that no two queue pairs share any.
  std::uint64_t last_initiated = 0;  ///< by the direct path; under send_lock
  std::uint64_t last_served = 0;     ///< by a responder; under recv_lock

  bool last_receive_told = false;  ///< kLastReceiveReached is given once; under recv_lock

  // The scheduler's: guarded by its lock.
  struct Scheduled {
    QueuePair* next = nullptr;
    bool queued = false;
    std::uint32_t heap_position = 0;  ///< 1-based; 0 = no timer
    Nanoseconds deadline = kNever;
  } scheduled;

  ReceiveQueue& receives() { return shared_receive != nullptr ? *shared_receive : *rq; }
  bool can_send() const {
    const auto s = state.load(std::memory_order_acquire);
    return s == QpState::kReadyToSend || s == QpState::kSendQueueDrained;
  }
  bool can_receive() const {
    const auto s = state.load(std::memory_order_acquire);
    return s == QpState::kReadyToReceive || s == QpState::kReadyToSend ||
           s == QpState::kSendQueueDrained || s == QpState::kSendQueueError;
  }
  void count(obs::Counter counter, std::uint64_t n = 1) { shared->counters->add(counter, n); }
};

/// Puts the request behind the send queue's last element. Refuses, with the argument's name, what
/// the service or the limits do not allow. The caller holds send_lock.
Result<void> enqueue_send(QueuePair& qp, const SendRequest& request);

/// What neighbours see of a queue pair's service, and what they must see of its peer's.
std::uint8_t shown_service(const QueuePair& qp);
std::uint8_t wanted_service(const QueuePair& qp);

/// Lets neighbours see the present state. Both locks held, or the state is an error or reset.
void show(QueuePair& qp);

/// Completes the oldest element: one completion if it was signaled or failed. Holds send_lock.
void complete_front(QueuePair& qp, CompletionStatus status, std::uint32_t byte_count);

/// Marks the queue pair as failed: from now on nothing is executed or accepted from the wire. The
/// flush follows in the scheduler (flush needs both locks; the caller may hold any).
void fail_queue_pair(QueuePair& qp);

/// Completes everything that is posted as flushed. The caller holds no lock of the queue pair,
/// whose state is kError (both queues) or kSendQueueError (the send queue).
void flush(QueuePair& qp);

}  // namespace weft::queue

// One end of an end-to-end context in use: the transport machine (transport/rd.h), how the two ends
// come to agree on it, and the queue pairs of this process that have messages for the other end.
// Each queue pair has a line per context that it sends to now; a context takes one message from
// each of its lines in turn.
//
//   kFree --open--> kAsking --reply--> kOpen --idle--> kClosing --reply--> kFree
//                      |                 |                 |
//                      +-- no answer ----+-- no answer ----+----> kDead --no line is left--> kFree
//   kFree --request of the other end--> kOpen
//
// Owned by Contexts, and never given back before it: whoever still has a pointer to one finds it
// free, or in other use, which its locks show. Locks, outermost first: the send_lock (or recv_lock)
// of the context's queue pair, then that of a queue pair that it serves, then the context's own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/lock.h"
#include "network/flow.h"
#include "network/frame.h"
#include "queue/queue_pair.h"
#include "transport/rd.h"
#include "wire/rd_setup.h"

namespace weft::path {

class Contexts;
class Context;

/// What one queue pair has for one context. Its own send_lock guards it, the context's lock what
/// links it.
struct Line {
  queue::QueuePair* qp = nullptr;
  Context* context = nullptr;
  std::uint32_t first = 0, last = 0;  ///< elements that wait, linked by their routes
  std::uint32_t waiting = 0;
  std::uint32_t taken = 0;       ///< are with the context
  Nanoseconds parked_until = 0;  ///< their receiver has no buffer
  std::uint8_t rnr_left = 0;
  // The context's:
  bool listed = false;
  Line* next = nullptr;
};

class Context final : public transport::RdWork {
 public:
  enum class Phase : std::uint8_t { kFree, kAsking, kOpen, kClosing, kDead };

  Context(Contexts& owner, queue::QueuePair& its_core) : core(its_core), owner_(owner) {
    requester.work = this;
  }

  // ---- for queue pairs: with their send_lock ----

  /// False: it takes none any more.
  bool add_line(Line& line);
  /// Nothing of it is left here.
  void remove_line(Line& line);
  /// The line has something that waits. False: the context is at its end.
  bool list(Line& line);
  bool is_dead() const { return phase() == Phase::kDead; }

  // ---- for its path ----

  void on_frame(const wire::Packet& packet, Nanoseconds now);
  bool next_request(Nanoseconds now, network::OutFrame& frame);
  bool next_answer(network::OutFrame& frame);
  void on_timer(Nanoseconds now);
  Nanoseconds deadline() const;
  bool has_requests() const;
  bool owes_nothing() const;

  // RdWork
  bool pull(queue::QueuePair& context, Nanoseconds now) override;
  bool keep_source(const queue::Route& route) override;
  bool hold_source(const queue::Route& route) override;
  void finish(const queue::SendWqe& wqe, CompletionStatus status) override;
  void put_back(const queue::SendWqe& wqe) override;
  bool park(const queue::SendWqe& wqe, Nanoseconds until) override;
  void fail_all() override;

  Phase phase() const { return phase_.load(std::memory_order_acquire); }

  queue::QueuePair& core;
  transport::RdRequester requester;
  transport::RdResponder responder;

 private:
  friend class Contexts;

  // With lock_ held:
  void append(Line& line);
  Line* take_first();
  bool take_message(Line& line, queue::QueuePair& context);

  /// Nobody finds it, and it keeps nothing. With the send_lock.
  void end(Phase phase);
  // The same, with the send_lock:
  /// False: it is in use.
  bool stop_taking_lines();
  Nanoseconds idle_at() const;
  void on_idle(Nanoseconds now);
  void take_down();
  // With no lock:
  /// The other end wants to take it down. False: it must not.
  bool on_down();
  void on_down_reply();
  void reopen();

  bool emit_setup(Nanoseconds now, network::OutFrame& frame);
  void set_phase(Phase phase) { phase_.store(phase, std::memory_order_release); }

  Contexts& owner_;
  std::atomic<Phase> phase_{Phase::kFree};

  // How it was made; under both locks of the core.
  bool initiator_ = false;
  std::uint64_t name_ = 0;
  Qpn way_;         ///< a number of the peer's, by which frames find its process
  EecNumber peer_;  ///< the context at the other end; 0: not known yet
  // What is to be said; under the send_lock.
  std::optional<wire::RdSetupKind> owed_;
  Nanoseconds say_again_at_ = kNever;
  Nanoseconds give_up_at_ = kNever;
  Nanoseconds pause_ns_ = 0;
  std::atomic<Nanoseconds> used_at_{0};

  mutable base::Lock lock_;
  bool takes_lines_ = false;
  std::uint32_t lines_ = 0;     ///< of queue pairs
  std::uint32_t listed_ = 0;    ///< of them, have something that waits
  Line* first_line_ = nullptr;  ///< of those, the next one in turn
  Line* last_line_ = nullptr;
  Nanoseconds parked_until_ = kNever;  ///< when one of them may go on; under the send_lock
};

}  // namespace weft::path

// The progress engine of one controller: whoever polls, posts or waits makes progress through it.
// It keeps the queue pairs that have something left to do, their time-outs, and the ports, and it
// never has a thread of its own. docs/progress.md tells who calls it when.
//
// Any number of threads may call any function at once. Its lock is below the locks of queue pairs:
// run_soon() and run_at() may be called with them held.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/lock.h"
#include "path/directory.h"
#include "path/neighbours.h"
#include "path/source.h"
#include "port/port.h"
#include "queue/path.h"
#include "queue/queue_pair.h"

namespace weft::path {

class Engine final : public queue::Scheduler {
 public:
  Engine(base::Clock& clock, QueuePairTable& table, obs::Counters& counters);
  ~Engine() override;

  /// Before the first queue pair; the engine does not own the port.
  void add_port(port::Port& port);
  /// The same for what is no port, at any time; at most kMostSources. It stays.
  void add_source(Source& source);
  static constexpr std::size_t kMostSources = 8;
  /// The same for the other processes of this host, if they are to be reached.
  void set_neighbours(Neighbours& neighbours) { neighbours_ = &neighbours; }
  Neighbours* neighbours() const { return neighbours_; }

  // Scheduler
  Nanoseconds now() override { return clock_.now(); }
  void run_soon(queue::QueuePair& qp) override;
  void run_at(queue::QueuePair& qp, Nanoseconds when) override;

  /// The queue pair is going away: forget it.
  void forget(queue::QueuePair& qp);

  /// True when there is nothing to do until something arrives: no due time-out, nothing to run.
  /// A few instructions: this is what an empty poll costs.
  bool idle() const {
    return (neighbours_ == nullptr || !neighbours_->active()) &&
           runnable_.load(std::memory_order_acquire) == 0 && !has_arrivals() &&
           earliest_.load(std::memory_order_relaxed) == kNever;
  }

  /// Does a bounded amount of what there is to do. True if something was done. Must not be called
  /// with any lock of a queue pair held.
  bool progress() {
    if (has_arrivals()) return progress_with_ports();
    bool did = false;
    if (neighbours_ != nullptr && neighbours_->active()) did |= neighbours_->poll();
    if (earliest_.load(std::memory_order_relaxed) != kNever) did |= fire_timers();
    if (has_runnable()) did |= run_some(false);
    return did;
  }
  /// The same for a program that polls, which a helper learns of; quickly when there is nothing.
  /// True: many polls in a row were in vain.
  bool poll() {
    if ((neighbours_ == nullptr || !neighbours_->active()) && idle()) return false;
    count_poll();
    if (progress()) {
      vain_polls_.store(0, std::memory_order_relaxed);
      return false;
    }
    // Who has armed a queue and finds nothing is about to sleep.
    if (armed() != 0) [[unlikely]]
      settle();
    const std::uint32_t vain = vain_polls_.load(std::memory_order_relaxed) + 1;
    vain_polls_.store(vain, std::memory_order_relaxed);
    return vain % kManyPolls == 0;
  }
  /// For a program that is about to sleep: what waits for company or for a later poll goes out now.
  void settle();
  /// Takes the frames that have reached this host, also from another thread that is at it: a queue
  /// pair is about to end, and what came before its end is not flushed.
  void take_arrived();
  /// The fast path of a poll, to be tried first: see Neighbours.
  bool receive(const queue::CompletionQueue& cq, Completion* out) {
    if (neighbours_ == nullptr || !neighbours_->active() || !neighbours_->receive(cq, out))
      return false;
    count_poll();
    return true;
  }
  /// Flushes queue pairs that failed: what a post does on its way out. Unfinished work is left to
  /// progress(), since a post copies only so much.
  void flush_failed();

  /// When progress() must be called next although nothing arrives; kNever if not at all.
  Nanoseconds next_deadline() const;
  bool has_runnable() const { return runnable_.load(std::memory_order_acquire) != 0; }
  /// Counts calls of progress() by the program, so that a helper sees whether it polls.
  std::uint64_t polls() const { return polls_.load(std::memory_order_relaxed); }
  void count_poll() { polls_.store(polls() + 1, std::memory_order_relaxed); }

  // ---- queues that are armed ----

  /// Who is woken by what arrives while a completion queue is armed.
  enum class Waker : std::uint8_t {
    kHelper,   ///< the helper, which makes progress and so wakes the program
    kProgram,  ///< the program itself; the helper takes over if nothing is done
  };
  /// A queue was armed, whose program will be woken by its channel.
  void count_armed() {
    armed_.fetch_add(1, std::memory_order_relaxed);
    if (neighbours_ != nullptr) neighbours_->begin_watch();
  }
  /// It has had its event, or is gone.
  void count_fired() {
    armed_.fetch_sub(1, std::memory_order_relaxed);
    if (neighbours_ != nullptr) neighbours_->end_watch();
  }
  std::uint32_t armed() const { return armed_.load(std::memory_order_relaxed); }
  /// At each arming. kHelper: the helper watches from now on what may arrive.
  void set_waker(Waker waker);
  Waker waker() const { return waker_.load(std::memory_order_relaxed); }
  /// The helper is the one who has to see to what arrives, at once: a queue was armed, and the
  /// program has not taken to polling since.
  bool needs_helper() const {
    return waker_.load(std::memory_order_seq_cst) == Waker::kHelper &&
           polls() < spins_from_.load(std::memory_order_relaxed);
  }

  /// Something is left that this thread cannot take up.
  void call_helper();

  /// `wake` is called, with the engine's lock held, when work was handed over that nobody may be
  /// waiting for; `attend` when the helper must watch what arrives, though the program polled just
  /// now.
  void set_wake(std::function<void(Nanoseconds deadline)> wake,
                std::function<void()> attend = nullptr);
  std::vector<int> wait_fds() const;
  /// Whether frames lie in a socket of a port. Calls the kernel.
  bool frames_wait() const;
  /// Whether a thread takes frames now, or began to in the last `within`.
  bool receives(Nanoseconds within) const;
  /// False: whatever happens here is done by the program's own calls.
  bool can_receive() const {
    return has_arrivals() || (neighbours_ != nullptr && neighbours_->active());
  }

 private:
  class PortReceiver;
  /// So many polls since it last armed a queue, and a program is taken for one that spins.
  static constexpr std::uint64_t kSpins = 256;
  static constexpr std::uint32_t kManyPolls = 64;

  /// There are ports or sources.
  bool has_arrivals() const { return has_arrivals_.load(std::memory_order_relaxed); }
  bool progress_with_ports();
  bool fire_timers();
  bool fire_timers(Nanoseconds now);
  bool run_some(bool failed_only);
  /// `missed`: another thread is at one of them, and sees to the time-outs too; or one has more.
  bool poll_ports(Nanoseconds now, bool& missed);
  void run(queue::QueuePair& qp);
  /// Queue pairs that wait to be run, oldest first, linked through QueuePair::scheduled.
  struct RunList {
    queue::QueuePair* first = nullptr;
    queue::QueuePair* last = nullptr;

    void append(queue::QueuePair& qp);
    queue::QueuePair* pop();
    bool erase(queue::QueuePair& qp);
  };
  queue::QueuePair* take_runnable(bool failed_only);
  // With lock_ held:
  void enqueue(queue::QueuePair& qp);
  void wake(Nanoseconds deadline);

  // A binary heap of queue pairs by deadline; each knows its place.
  void heap_insert(queue::QueuePair& qp);
  void heap_erase(queue::QueuePair& qp);
  void sift_up(std::size_t at);
  void sift_down(std::size_t at);
  void place(std::size_t at, queue::QueuePair* qp);
  void publish_earliest();

  base::Clock& clock_;
  QueuePairTable& table_;
  obs::Counters& counters_;

  base::Lock lock_;
  RunList failed_;      ///< to be flushed
  RunList unfinished_;  ///< with work, or a time-out, to see to
  std::vector<queue::QueuePair*> heap_;
  std::function<void(Nanoseconds)> wake_;
  std::function<void()> attend_;
  std::atomic<std::uint32_t> runnable_{0};  ///< in both lists
  std::atomic<std::uint32_t> failures_{0};  ///< in failed_
  std::atomic<Nanoseconds> earliest_{kNever};
  std::atomic<std::uint64_t> polls_{0};
  std::atomic<std::uint32_t> vain_polls_{0};  ///< in a row; threads may overwrite each other's
  std::atomic<std::uint32_t> armed_{0};
  /// From so many polls on the program is taken for one that spins; 0 before it arms a queue.
  std::atomic<std::uint64_t> spins_from_{0};
  // seq_cst: the helper looks at it after it has said that it dozes, and attend() after this.
  std::atomic<Waker> waker_{Waker::kHelper};
  /// When all ports were last looked at; what came before that has been seen.
  std::atomic<Nanoseconds> looked_at_{0};  ///< when all that had arrived was seen
  std::atomic<Nanoseconds> receives_since_{0};
  std::vector<std::unique_ptr<PortReceiver>> receivers_;
  std::array<std::atomic<Source*>, kMostSources> sources_{};
  std::atomic<std::size_t> source_count_{0};
  std::atomic<bool> has_arrivals_{false};
  Neighbours* neighbours_ = nullptr;
};

}  // namespace weft::path

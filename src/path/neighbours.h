// Work between this controller and other processes of its host: takes records out of the rings of
// those who call (and executes them), collects the answers to our own, and tells queue pairs whose
// peer's process died. Whoever runs the controller's engine does the work, one thread at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "host/multicast_names.h"
#include "host/presence.h"
#include "path/directory.h"
#include "path/neighbour_service.h"

namespace weft::path {

class Neighbours {
 public:
  /// Calls `visit` for each queue pair of the controller that may be in use.
  using Walk = std::function<void(const std::function<void(queue::QueuePair&)>& visit)>;
  Neighbours(std::unique_ptr<host::Presence> presence, QueuePairTable& table,
             queue::Scheduler& scheduler, Walk walk);
  ~Neighbours();

  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  host::Presence& presence() { return *presence_; }

  /// Makes a link to whoever has the queue pair, and waits a moment for the answer. No lock held.
  Result<void> call(const Gid& gid, Qpn qpn);
  /// The way to a queue pair of another process; null if nobody on this host has it.
  std::unique_ptr<queue::Path> make_path(queue::QueuePair& qp, const Gid& gid, Qpn qpn);

  /// Executes what has come, tells peers of it, and takes what they told: a queue pair is about to
  /// end, and what has reached its host by then is not flushed. No lock held.
  void drain_rings();

  /// A datagram for another process, the front element of its queue pair. kWaits: ask again soon,
  /// its process has not answered, or its ring is full. kSent: it is complete too, and was before
  /// the process could see it: a program that waits for the events of both does not see the reply
  /// first.
  enum class Datagram : std::uint8_t { kWaits, kSent, kNobodyHears };
  Datagram send_datagram(queue::QueuePair& qp, queue::SendWqe& wqe);
  /// A datagram for each other process with members of the group, but those that `skips` names.
  /// False: one has not answered yet, or its ring is full, and nobody got it; whoever insists
  /// leaves that one out, now and until it goes on.
  bool send_multicast(queue::QueuePair& qp, queue::SendWqe& wqe,
                      const std::function<bool(const host::GroupMember&)>& skips, bool insists);
  host::MulticastNames& groups() { return groups_; }

  // ---- for the engine ----

  /// False: there is no link, and poll() has nothing to look at.
  bool active() const { return links_.load(std::memory_order_relaxed) != 0; }
  /// Does a bounded amount of what there is to do; true if something was done.
  bool poll();
  /// For a thread that has found this completion queue empty: the message that it most likely waits
  /// for, if that is there, with nothing else done. False: poll().
  bool receive(const queue::CompletionQueue& cq, Completion* out);
  /// Gives the peers their answers and acknowledgements now: nobody may poll for long.
  void settle();

  // ---- for programs that sleep ----

  /// True when poll() would find something that has come, or when another thread is at it.
  bool has_arrivals() { return has_work(false); }
  /// The same, or when something is owed to others. Asked before the helper sleeps.
  bool has_work() { return has_work(true); }
  /// A thread is about to sleep on wait_fd(), or will, until end_watch().
  void begin_watch() { page_.begin_watch(); }
  void end_watch() { page_.end_watch(); }
  /// After begin_watch(): from now on others make wait_fd() readable when they give us something;
  /// what they gave before is visible to has_arrivals().
  void request_wake() { page_.request_wake(); }
  /// How many requests were executed that a peer waits for and the program never sees: reads and
  /// atomics. Such a peer is likely to ask again at once.
  std::uint64_t passive_ops_served() const {
    return passive_ops_served_.load(std::memory_order_relaxed);
  }
  /// When this fd is readable, serve() must be called, whether the program polls or not. Any
  /// thread.
  int wait_fd() const { return presence_->wait_fd(); }
  void serve() { presence_->serve(); }
  /// The program ends without closing anything: what is owed to others is given now. Does not wait.
  void at_exit();

 private:
  bool has_work(bool owed_counts);
  bool receive_expected(const queue::CompletionQueue& cq, Completion* out);
  bool serve_rings();
  void serve(host::Inbound& link, LastServed& last);
  std::uint32_t serve_more(host::Inbound& link, LastServed& last);
  /// Somebody waits for an answer of ours, or we for one.
  bool in_a_hurry();
  bool give_back_all();
  void flush_owed_acks();
  bool collect_answers();
  void collect_awaited();
  bool answers_wait() const;
  bool collect(host::Outbound& link);
  void fail_paths_of(const host::Outbound& link);
  static void first_contact(host::Outbound& link);
  enum class Completes : bool { kNo, kYes };
  bool put_datagram(host::Outbound& link, queue::QueuePair& qp, queue::SendWqe& wqe,
                    Completes completes);

  std::unique_ptr<host::Presence> presence_;
  const std::atomic<std::uint32_t>& links_;  ///< how many there are that may bring something
  host::ProcessPage& page_;
  QueuePairTable& table_;
  queue::Scheduler& scheduler_;
  Walk walk_;
  host::MulticastNames groups_;
  // Under the presence's receive_lock.
  std::array<queue::RingAnswer, 64> answers_;
  std::array<LastServed, 8> last_;        ///< by the places of links, which may share one
  const LastServed* expected_ = nullptr;  ///< of those, who is likely to send next
  bool paused_ = false;                   ///< receive() did, in vain
  int passed_over_ = 0;                   ///< polls that brought messages
  int idle_polls_ = 0;                    ///< polls that brought none
  bool hurries_ = false;                  ///< somebody waits for a record to be given back
  bool owes_ = false;                     ///< there is more to do a few polls from now
  std::atomic<std::uint64_t> passive_ops_served_{0};  ///< written under the lock
};

}  // namespace weft::path

// Work between this controller and other processes of its host: takes records out of the rings of
// those who call (and executes them), collects the answers to our own, and tells queue pairs whose
// peer's process died. A source of the controller's engine; whoever polls does the work, one thread
// at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "host/multicast_names.h"
#include "host/presence.h"
#include "path/directory.h"
#include "path/engine.h"
#include "path/neighbour_path.h"
#include "path/neighbour_service.h"

namespace weft::path {

class Neighbours final : public Source {
 public:
  /// Calls `visit` for each queue pair of the controller that may be in use.
  using Walk = std::function<void(const std::function<void(queue::QueuePair&)>& visit)>;
  Neighbours(std::unique_ptr<host::Presence> presence, QueuePairTable& table,
             queue::Scheduler& scheduler, Walk walk);
  ~Neighbours() override;

  host::Presence& presence() { return *presence_; }

  /// Makes a link to whoever has the queue pair, and waits a moment for the answer. No lock held.
  Result<void> call(const Gid& gid, Qpn qpn);
  /// The way to a queue pair of another process; null if nobody on this host has it.
  std::unique_ptr<queue::Path> make_path(queue::QueuePair& qp, const Gid& gid, Qpn qpn);

  /// Executes what has come, tells peers of it, and takes what they told: a queue pair is about to
  /// end, and what has reached its host by then is not flushed. No lock held.
  void balance();

  /// A datagram for another process. False: ask again soon, its process has not answered, or its
  /// ring is full.
  bool send_datagram(queue::QueuePair& qp, queue::SendWqe& wqe);
  /// A datagram for each other process with members of the group, but those that `skips` names.
  /// False: one has not answered yet, or its ring is full, and nobody got it; whoever insists
  /// leaves that one out, now and until it goes on.
  bool send_multicast(queue::QueuePair& qp, queue::SendWqe& wqe,
                      const std::function<bool(const host::GroupMember&)>& skips, bool insists);
  host::MulticastNames& groups() { return groups_; }

  // Source
  bool poll() override;
  bool receive(const queue::CompletionQueue& cq, Completion* out) override;
  bool has_arrivals() override { return has_work(false); }
  bool has_work() override { return has_work(true); }
  void settle() override;
  void begin_watch() override { page_.begin_watch(); }
  void end_watch() override { page_.end_watch(); }
  void request_wake() override { page_.request_wake(); }
  std::uint64_t served_unseen() const override {
    return served_unseen_.load(std::memory_order_relaxed);
  }
  int wait_fd() const override { return presence_->wait_fd(); }
  void serve() override;
  void farewell() override;

 private:
  bool has_work(bool owed_counts);
  bool receive_expected(const queue::CompletionQueue& cq, Completion* out);
  bool serve_rings();
  void serve(host::Inbound& link, LastServed& last);
  std::uint32_t serve_more(host::Inbound& link, LastServed& last);
  /// Somebody waits for an answer of ours, or we for one.
  bool in_a_hurry();
  bool give_back_all();
  void pay_debts();
  bool collect_answers();
  void collect_awaited();
  bool answers_wait() const;
  bool collect(host::Outbound& link);
  void fail_paths_of(const host::Outbound& link);
  static void first_contact(host::Outbound& link);
  bool put_datagram(host::Outbound& link, queue::QueuePair& qp, queue::SendWqe& wqe);

  std::unique_ptr<host::Presence> presence_;
  host::ProcessPage& page_;
  QueuePairTable& table_;
  queue::Scheduler& scheduler_;
  Walk walk_;
  host::MulticastNames groups_;
  // Under the presence's receive_lock.
  std::array<RingAnswer, 64> answers_;
  std::array<LastServed, 8> last_;               ///< by the places of links, which may share one
  const LastServed* expected_ = nullptr;         ///< of those, who is likely to send next
  bool paused_ = false;                          ///< receive() did, in vain
  int passed_over_ = 0;                          ///< polls that brought messages
  int idle_polls_ = 0;                           ///< polls that brought none
  bool hurries_ = false;                         ///< somebody waits for a record to be given back
  bool owes_ = false;                            ///< there is more to do a few polls from now
  std::atomic<std::uint64_t> served_unseen_{0};  ///< written under the lock
};

}  // namespace weft::path

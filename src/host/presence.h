// A controller's presence on its host: the names under which other processes find it, the links of
// those that did (inbound: they initiate, we serve), and its own links to others (outbound: we
// initiate). A link has one ring, from initiator to target; two processes that both initiate have
// two links. Handshake, hang-ups and what arrives on sockets are seen to by serve(), which the
// helper thread, or a program that sleeps on its own, calls when wait_fd() is readable.
//
// Names: "weft/<address>/<block>" for every block of 4096 queue-pair numbers and every address of
// the controller, so numbers are unique per address and a number leads to its process.
//
// claim_block(), reach(), links, drain() and serve() from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/biased_lock.h"
#include "base/lock.h"
#include "base/random.h"
#include "host/exec.h"
#include "host/link.h"
#include "host/public_tables.h"
#include "weft/types.h"

namespace weft::host {

class Presence final : public memory::KeyPublisher, private ExecListener {
 public:
  static Result<std::unique_ptr<Presence>> create(std::vector<Gid> addresses,
                                                  const base::Permutation24& hidden,
                                                  base::Random& random);
  ~Presence() override;

  /// A block of queue-pair numbers that nobody else on this host has for these addresses: one of
  /// `slot`, `slot` + `slots`, ...
  Result<std::uint32_t> claim_block(std::uint32_t slot = 0, std::uint32_t slots = 1);
  PublicTables& tables() { return *tables_; }
  ProcessPage& page() { return *page_; }

  /// The link to whoever has this queue pair: a new one may not be welcome yet; ask it again.
  /// kNotFound: nobody on this host; kNotPermitted: another user's.
  Result<std::shared_ptr<Outbound>> reach(const Gid& gid, Qpn qpn);

  /// -1 when the program has closed it.
  int wait_fd() const { return epoll_.checked(); }
  /// Accepts, answers, takes wake-ups, and finds out who died. Does nothing while another thread
  /// is at it.
  void serve();
  bool has_links() const { return links_.load(std::memory_order_relaxed) != 0; }
  /// How many there are, of both kinds.
  const std::atomic<std::uint32_t>& links() const { return links_; }

  // For whoever holds receive_lock: takes from rings and collects answers.
  base::BiasedLock receive_lock;
  std::vector<std::shared_ptr<Inbound>>& inbound() { return inbound_; }
  std::vector<std::shared_ptr<Outbound>>& outbound() {
    if (outbound_changed_.load(std::memory_order_relaxed)) [[unlikely]]
      list_outbound();
    return outbound_;
  }
  void dropped_link() { links_.fetch_sub(1, std::memory_order_relaxed); }

  /// Waits until no living neighbour works under the word. Its object has been marked dead.
  /// `fenced`: neighbours looked at it behind a fence of their own.
  void drain_word(std::uint64_t word, bool fenced = false);
  void wait_for_copies() override;
  std::uint32_t tag() const { return tables_->tag(); }

  // KeyPublisher
  bool prepare(std::uint32_t slot) override { return owner_checks_ || tables_->prepare_key(slot); }
  void show(std::uint32_t slot, const memory::KeyTable::Entry& entry) override;
  void drain(std::uint32_t slot, bool fenced) override {
    if (owner_checks_) return;  // nobody was shown the key
    drain_word(flight_word(tag(), false, slot), fenced);
    tables_->forget_arena(slot);
  }

 private:
  /// What epoll watches, by number; the numbers are never used twice.
  struct Watched {
    LocalSocket socket;  ///< a listener, or a caller that has not said hello
    bool listens = false;
    std::shared_ptr<Inbound> inbound;
    std::shared_ptr<Outbound> outbound;
  };

  Presence() { add_exec_listener(*this); }
  /// Waits while in_flight(process) holds for a neighbour.
  template <class InFlight>
  void wait_while(InFlight in_flight, bool fenced);
  Result<void> listen(std::uint32_t block);
  void accept_from(Watched& listener);
  void on_event(std::uint64_t id, std::uint32_t events);
  void answer(std::uint64_t id, Watched& caller);
  Result<std::shared_ptr<Inbound>> welcome(LocalSocket socket, Message hello);
  void offer_arena(std::uint32_t arena);
  /// Tells neighbours of arenas that have been destroyed. lock_ is held.
  void withdraw_arenas();
  /// Unmaps what neighbours have destroyed.
  void release_arenas();
  Result<std::shared_ptr<Outbound>> call(const Gid& gid, std::uint32_t block);
  void list_outbound();
  bool watch(int fd, std::uint64_t id);
  void forget(std::uint64_t id);
  void forget_gone();
  /// The program closed our descriptors: the links with them.
  void lose_everything();

  std::vector<Gid> addresses_;
  base::Random* random_ = nullptr;
  ProcessPage* page_ = nullptr;
  bool owner_checks_ = false;
  std::unique_ptr<PublicTables> tables_;
  Fd epoll_;
  std::atomic<std::uint32_t> links_{0};

  std::vector<std::shared_ptr<Inbound>> inbound_;    ///< under receive_lock
  std::vector<std::shared_ptr<Outbound>> outbound_;  ///< under receive_lock

  base::Lock serving_;                ///< only ever tried; guards what is serve()'s own:
  std::uint64_t arenas_dropped_ = 0;  ///< when links were looked through last
  std::vector<std::shared_ptr<Outbound>> releasing_;  ///< that have some still mapped

  base::Lock lock_;  ///< guards what follows; nothing is taken under it
  std::uint64_t next_id_ = 1;
  std::unordered_map<std::uint64_t, std::shared_ptr<Watched>> watched_;
  std::vector<std::shared_ptr<Outbound>> reached_;  ///< all that live, for reach()
  std::vector<std::shared_ptr<Inbound>> served_;    ///< all that live, for drain()
  std::vector<std::uint32_t> offered_arenas_;
  std::atomic<std::uint64_t> arenas_gone_{0};  ///< when they were looked through last
  /// Some neighbour's socket was full when it was to be told of one. Read without the lock.
  std::atomic<bool> some_do_not_listen_{false};
  std::atomic<bool> outbound_changed_{false};
};

}  // namespace weft::host

// One end of a link: a queue pair, the memory that its program uses, and what the program must
// remember to judge each completion. State with functions over it; the link drives it. An end
// outlives its queue pair, which comes and goes with the connection. One thread.
//
//   outbox    slots that messages and writes are gathered from
//   landing   slots that reads and atomics bring their results to
//   shelf     what the peer may write and read: the first half under the shelf's own key, the
//   second
//             (the annex) only while a window or another region exposes a part of it
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/verbs.h"
#include "worlds/link_spec.h"
#include "worlds/node.h"
#include "worlds/receive_buffers.h"
#include "worlds/shelf.h"
#include "worlds/work.h"

namespace weft::worlds {

class Link;

/// A message that the peer has to receive.
struct Announced {
  std::uint64_t sequence = 0;
  std::uint32_t length = 0;
  bool write = false;  ///< a write with immediate: its data is on the shelf
  std::uint32_t shelf_offset = 0;
  bool has_immediate = false;
  bool too_long = false;  ///< for the peer's buffers, on purpose
  std::shared_ptr<Exposure> invalidated;
};

struct Slots {
  std::uint64_t ea = 0;
  std::uint32_t bytes_each = 0;
  std::vector<bool> busy;
  std::optional<verbs::MemoryRegion> region;

  int take();
  void give_back(int& slot);
  std::uint64_t at(int slot) const {
    return ea + std::uint64_t{bytes_each} * static_cast<std::uint64_t>(slot);
  }
  /// The element for some bytes of memory inside the slots.
  Sge sge(std::uint64_t at_ea, std::uint32_t length) const {
    return {at_ea - ea + region->address(), length, region->lkey()};
  }
};

struct Window {
  std::unique_ptr<verbs::MemoryWindow> window;
  verbs::WindowType type = verbs::WindowType::kType1;
  bool in_use = false;  ///< bound, or a bind or unbind is on its way
};

class End final : public CompletionHandler {
 public:
  End(sim::Stage& stage, Link& link, Node& node, const LinkSpec& spec, const EndSpec& where);

  // ---- life ----------------------------------------------------------------------------------
  /// Registers memory and makes the queue pair, unless one was kept.
  void open();
  Result<void> connect(const End& peer);
  /// To the error state, all completions out, everything checked and given back. `keep`: the queue
  /// pair goes back to RESET instead of away.
  void close(bool keep);
  /// Both queue pairs are gone: keys are taken back, and the shelf's content is judged. `last`: the
  /// end will not be opened again.
  void settle_accounts(bool last);
  /// The queue pair goes at once, whatever is under way.
  void destroy_abruptly();
  /// The node has crashed: forget, without touching anything that was there.
  void vanish();

  bool present() const { return qp.has_value(); }
  Process& process() const { return node.process(where.process); }
  Gid address() const { return node.spec().cards[where.card].ports[where.port - 1u]; }
  bool reliable() const { return spec.service == Service::kReliableConnection; }
  std::string name() const;

  // ---- completions ---------------------------------------------------------------------------
  void on_completion(const Completion& completion) override;
  void refill_receives(std::size_t most);

  sim::Stage& stage;
  Link& link;
  Node& node;
  const LinkSpec& spec;
  const EndSpec where;
  End* peer = nullptr;

  std::optional<verbs::QueuePair> qp;
  Psn first_psn;
  std::uint32_t life = 0;  ///< of the node, in which the memory was allocated

  Slots outbox, landing;
  std::uint64_t shelf_ea = 0;
  std::uint32_t shelf_half = 0;
  std::optional<verbs::MemoryRegion> shelf_region, annex_region;
  GrantId shelf_grant = 0;
  Shelf shelf;  ///< the shadow of what the peer does here
  std::vector<Window> windows;
  std::vector<std::shared_ptr<Exposure>> exposures;

  std::unique_ptr<ReceiveBuffers> own_receives;
  SharedReceive* shared_receive = nullptr;

  WorkLedger ledger;
  std::deque<Announced> announced;  ///< on the way to the peer
  std::uint64_t key = 0;            ///< names the content of what this end sends
  std::uint64_t next_sequence = 1;
  std::uint64_t acknowledged = 0;  ///< messages that the peer's controller has taken, it says
  std::uint64_t received = 0;      ///< messages that came here
  std::uint32_t unsignaled = 0;    ///< in a row

  std::optional<CompletionStatus> first_error;  ///< of this connection, other than "flushed"
  bool failed = false;                          ///< some completion told of an error
  bool moved = false;  ///< the program itself forced it into an error state, or destroyed it

 private:
  void allocate_memory();
  void register_memory();
  void make_queue_pair();
  void give_back_memory();
  void check_shelf();
  void abandon_work();
  void retire_silent_work();
};

// What a completion means: end_completions.cc.
void retire(End& end, Work& work, CompletionStatus status);
void on_receive(End& end, const Completion& completion);
/// The work's outcome will never be known.
void leave_in_doubt(End& end, Work& work);
/// Gives back what the work occupied.
void free_resources(End& end, Work& work);

}  // namespace weft::worlds

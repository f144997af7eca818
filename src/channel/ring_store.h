// Where the registered memory of channels comes from and goes to: blocks of the slab of keys, with
// a key of their own where a peer writes; or of the slab of pages, where a ring has to go back to
// the system by itself, with no other key than its own. What costs time waits until the context is
// quiet: keys of rings that nobody writes to any more are revoked then, and only then their memory
// is free; and a receive ring of the size that was asked for last is made in advance, so that who
// grows next does not stop small messages. What it holds counts against the budget. Belongs to a
// context, under its lock.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <memory>

#include "channel/budget.h"
#include "channel/slab.h"

namespace weft::channel {

/// What becomes of the memory of a ring that is freed.
enum class Freed : std::uint8_t {
  kSometime,  ///< it may be the next ring, and goes to the system when nobody wants it
  kAtOnce     ///< it goes to the system, and its local key dies with it
};

struct Registration {
  Block block;
  ibv_mr* region = nullptr;
  ibv_mw* window = nullptr;  ///< of a loan
};

/// How a ring is cut.
struct RingShape {
  std::uint32_t slots = 0, slot_bytes = 0;
  std::uint64_t bytes() const { return std::uint64_t{slots} * slot_bytes; }
  /// What the budget is charged.
  std::uint64_t taken() const { return block_bytes(bytes()); }
  bool operator==(const RingShape&) const = default;
};

class RingStore {
 public:
  RingStore(ibv_pd* pd, Slab& slab, Budget& budget)
      : pd_(pd), slab_(slab), pages_(nullptr, slab.has_arenas()), budget_(budget) {}
  ~RingStore();
  RingStore(const RingStore&) = delete;
  RingStore& operator=(const RingStore&) = delete;

  /// A block for local use; null: errno says why. The caller has charged the budget.
  std::unique_ptr<Registration> make(std::uint64_t bytes, Freed freed);
  static LocalKey local_key(const Registration& made);
  /// No slot of it looks like a frame any more.
  static void clear(std::byte* memory, RingShape shape);
  /// One that a peer may write to, and no slot of which looks like a frame. `again`: others of this
  /// shape may be wanted soon.
  std::unique_ptr<Registration> make_writable(RingShape shape, bool again, Freed freed);
  /// Its own key dies; the first half of free().
  static void revoke(Registration& made);
  void free(std::unique_ptr<Registration> made);
  /// Revokes and frees at a quieter time, and then gives `charged` bytes back to the budget.
  void free_later(std::unique_ptr<Registration> made, std::uint64_t charged);

  /// One piece of the work that waits; false: there was none.
  bool do_chore();
  bool has_chores() const { return !waiting_.empty() || (wanted_.slots != 0 && spare_ == nullptr); }
  /// Too many wait to go on waiting.
  bool overdue() const { return waiting_.size() > kWaitMost; }
  /// Frees all that waits, for somebody who needs memory.
  void finish();
  /// To be called now and then: a spare ring that nobody came for goes.
  void trim();

 private:
  static constexpr std::size_t kWaitMost = 16;

  struct Waiting {
    std::unique_ptr<Registration> made;
    std::uint64_t charged;
  };
  void free_oldest();
  std::unique_ptr<Registration> make_own(std::uint64_t bytes, int access);

  ibv_pd* const pd_;
  Slab& slab_;
  Slab pages_;
  Budget& budget_;
  std::deque<Waiting> waiting_;
  std::unique_ptr<Registration> spare_;
  RingShape wanted_;  // of the spare ring; no slots: none is wanted
  int idle_ = 0;      // calls of trim() since somebody wanted one
};

}  // namespace weft::channel

// The queue pairs of one controller: their storage, their numbers, and how many are live. Slots are
// type-stable, so a pointer stays valid; a queue pair in state RESET is not found. Part of the
// controller; any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/slot_table.h"
#include "memory/flight.h"
#include "queue/queue_pair.h"
#include "verbs/qpn_blocks.h"
#include "weft/result.h"
#include "weft/types.h"

namespace weft::verbs {

class QueuePairPool {
 public:
  /// `hidden`: so many that nobody sees, beside those.
  QueuePairPool(base::Random& random, std::uint32_t most, std::uint32_t hidden = 0)
      : numbers_(random),
        table_(std::min(most + hidden, base::SlotTable<queue::QueuePair>::kMaxSlots)),
        most_(most) {}

  /// Which numbers are given: to be settled before the first queue pair.
  QpnBlocks& numbers() { return numbers_; }

  /// With its number, and otherwise as its last user left it. The device is named in the error.
  Result<queue::QueuePair*> acquire(std::string_view device);
  /// One that nobody sees: it does not count, and is never released.
  Result<queue::QueuePair*> acquire_hidden();
  /// Nobody works on it any more.
  void release(queue::QueuePair& qp);
  std::uint32_t live() const { return live_.load(std::memory_order_relaxed); }

  /// Published under Hold::kPeer for the calling thread, or null.
  queue::QueuePair* find(Qpn qpn) const {
    const std::uint32_t slot = numbers_.slot_of(qpn);
    queue::QueuePair* qp = slot == QpnBlocks::kNone ? nullptr : table_.at(slot);
    if (qp == nullptr) return nullptr;
    memory::Flight::publish(memory::Hold::kPeer, qp);
    if (qp->state.load(std::memory_order_acquire) != QpState::kReset && qp->qpn == qpn) return qp;
    memory::Flight::clear(memory::Hold::kPeer);
    return nullptr;
  }
  /// The same, not published, whatever its state; it may have another number by now.
  queue::QueuePair* peek(Qpn qpn) const {
    const std::uint32_t slot = numbers_.slot_of(qpn);
    return slot == QpnBlocks::kNone ? nullptr : table_.at(slot);
  }
  /// The number is of this controller, whether a queue pair has it or not.
  bool owns(Qpn qpn) const { return numbers_.slot_of(qpn) != QpnBlocks::kNone; }

  /// Each that can receive, published under Hold::kSelf.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::uint32_t slot = 0;; ++slot) {
      queue::QueuePair* qp = table_.at(slot);
      if (qp == nullptr) return;
      const memory::Flight::Scope self(memory::Hold::kSelf, qp);
      if (qp->can_receive()) visit(*qp);
    }
  }

 private:
  QpnBlocks numbers_;
  base::SlotTable<queue::QueuePair> table_;
  const std::uint32_t most_;
  std::atomic<std::uint32_t> live_{0};
};

}  // namespace weft::verbs

// What a simulated node's controller knows about processes: which queue pairs they opened, and the
// tables by which it translates their addresses. It takes a process's segment table when the first
// queue pair opens and registers for updates; one copy serves all queue pairs of the process.
// Whether it copies or shares the segment table, and keeps page translations of its own or walks
// the system's table, is the node's setting. Owned by its node; one thread. A process reaches only
// its own context.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/vmm.h"
#include "sim/segment_table.h"
#include "weft/types.h"

namespace weft::sim {

enum class SegmentTables : std::uint8_t { kCopied, kShared };
enum class PageTables : std::uint8_t { kPrivate, kSystem };

class ControllerTables {
 public:
  /// What opening a queue pair saves.
  struct QueuePairNote {
    Qpn qpn;
    std::uint32_t depth = 0;
    std::uint8_t service = 0;
  };
  struct Counters {
    std::uint64_t tables_taken = 0;     ///< segment tables copied or shared at a first opening
    std::uint64_t segment_updates = 0;  ///< SegmentTableUpdate messages that arrived
    std::uint64_t page_updates = 0;     ///< page swaps and changes that arrived
    std::uint64_t private_hits = 0;     ///< translations by a private page table
  };

  /// Translations of one process; exists while it has queue pairs.
  class Context {
   public:
    const SegmentEntry* segment(std::uint32_t id) const { return table_->find(id); }
    const std::vector<QueuePairNote>& queue_pairs() const { return queue_pairs_; }

   private:
    friend class ControllerTables;
    struct PrivatePage {
      std::uint64_t page = ~std::uint64_t{0};
      std::uint32_t frame = 0;
      bool writable = false;
    };
    static constexpr std::size_t kPrivatePages = 512;  ///< direct-mapped by the page's low bits

    const SegmentTable* table_ = nullptr;  ///< the copy, or the process's own
    SegmentTable copy_;
    const SegmentTable* source_ = nullptr;
    std::vector<QueuePairNote> queue_pairs_;
    std::vector<PrivatePage> pages_;  ///< empty when the system's table is used
  };

  ControllerTables(SegmentTables segment_tables, PageTables page_tables)
      : segment_tables_(segment_tables), page_tables_(page_tables) {}

  Context* open(const SegmentTable& table, const QueuePairNote& note);
  /// Null when that was the last queue pair: the context is gone.
  Context* close(Context* context, Qpn qpn);

  /// SegmentTableUpdate: an entry of `table` was added, deleted or changed.
  void segment_update(const SegmentTable& table, std::uint32_t id);
  /// A page was swapped, moved, unmapped or protected. `page` is a whole virtual page number.
  void page_update(std::uint64_t page);

  /// A private translation: frame number, or -1.
  std::int64_t find_private(Context& context, std::uint64_t page, memory::Intent intent);
  void keep_private(Context& context, std::uint64_t page, std::uint32_t frame, bool writable);

  const Counters& counters() const { return counters_; }

 private:
  const SegmentTables segment_tables_;
  const PageTables page_tables_;
  std::vector<std::unique_ptr<Context>> contexts_;
  Counters counters_;
};

}  // namespace weft::sim

// A simulated process's segment table: segment id of an effective address (its upper 24 bits) to
// the upper bits of the virtual address. Ids are small numbers, so the table is a plain vector; an
// id beyond it has no entry. Owned by the process, copied by the controller; one thread.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::sim {

struct SegmentEntry {
  std::uint32_t upper = 0;
  bool valid = false;
};

class SegmentTable {
 public:
  static constexpr std::uint32_t kMaxSegments = 4096;

  /// Null: no valid entry.
  const SegmentEntry* find(std::uint64_t id) const {
    return id < entries_.size() && entries_[id].valid ? &entries_[id] : nullptr;
  }
  /// `id` < kMaxSegments.
  void set(std::uint32_t id, SegmentEntry entry) {
    if (id >= entries_.size()) entries_.resize(id + 1);
    entries_[id] = entry;
  }
  /// Smallest id from 1 on without a valid entry; kMaxSegments when all are taken.
  std::uint32_t first_free() const {
    std::uint32_t id = 1;
    while (id < kMaxSegments && find(id) != nullptr) ++id;
    return id;
  }

 private:
  std::vector<SegmentEntry> entries_;
};

}  // namespace weft::sim

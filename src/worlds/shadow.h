// The shadow of one simulated process's memory: knows which bytes controllers may write at this
// moment, watches every write that they make, and remembers which bytes anybody ever had a right to
// change. All others must keep the pattern that they began with. Owned by the node together with
// the process that it watches; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/process_memory.h"
#include "sim/stage.h"

namespace weft::worlds {

/// Names one right to write; 0 is none.
using GrantId = std::uint64_t;

class Shadow {
 public:
  Shadow(sim::Stage& stage, sim::ProcessMemory& process, std::string owner);

  /// New memory of the process, a segment of its own, filled with pattern.
  std::uint64_t allocate(std::uint32_t bytes);

  /// From now on, until revoke(), controllers may write there.
  GrantId grant(std::uint64_t ea, std::uint64_t length);
  /// The right ends at once: the next write there is a violation.
  void revoke(GrantId& id);
  std::size_t grants() const { return grants_.size(); }

  /// The process's own loads and stores.
  void store(std::uint64_t ea, std::span<const std::byte> bytes);
  void load(std::uint64_t ea, std::span<std::byte> bytes) const;
  /// Puts the pattern back, as if the memory were new.
  void restore_pattern(std::uint64_t ea, std::uint64_t length);
  std::uint64_t pattern_key() const { return key_; }

  /// At the end: every byte that nobody had a right to change is as it was.
  void check_untouched();

 private:
  struct Segment {
    std::uint64_t ea;
    std::vector<std::uint8_t> touchable;
  };
  struct Grant {
    GrantId id;
    std::uint64_t begin, end;
  };

  void on_write(std::uint64_t ea, std::size_t n);
  void mark(std::uint64_t ea, std::uint64_t length);

  sim::Stage& stage_;
  sim::ProcessMemory& process_;
  const std::string owner_;
  const std::uint64_t key_;
  std::vector<Segment> segments_;
  std::vector<Grant> grants_;
  GrantId next_ = 1;
};

}  // namespace weft::worlds

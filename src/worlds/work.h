// What a simulated program remembers about the work it posted, and the checker that each request
// completes exactly once and in order. Owned by the end of a link; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "weft/verbs.h"
#include "weft/work.h"
#include "worlds/shadow.h"

namespace weft::worlds {

/// A range that a peer may reach under a key of its own, for a while.
struct Exposure {
  enum class Kind : std::uint8_t { kWindow1, kWindow2, kRegion, kOneShot };

  Kind kind = Kind::kRegion;
  RemoteKey key;
  std::uint64_t address = 0;  ///< what the peer calls its first byte
  std::uint32_t offset = 0;   ///< of its first byte, in the shelf
  std::uint32_t length = 0;
  bool writable = true;    ///< else the peer may only read
  bool offered = false;    ///< the peer knows of it
  bool revoked = false;    ///< taking it back has begun: requests may be refused from now on
  bool spent = false;      ///< a one-shot key that a request was posted with
  std::uint32_t slot = 0;  ///< windows: which one of the owner's
  GrantId grant = 0;
  std::unique_ptr<verbs::MemoryRegion> region;  ///< kRegion, kOneShot
};

/// A posted send request.
struct Work {
  std::uint64_t wr_id = 0;
  SendOp op = SendOp::kSend;
  bool signaled = true;
  /// What must come of it, unless the connection breaks first.
  CompletionStatus expected = CompletionStatus::kSuccess;

  std::uint64_t sequence = 0;  ///< names its content
  std::uint32_t length = 0;
  std::uint32_t shelf_offset = 0;  ///< writes and reads
  int outbox_slot = -1;
  int landing_slot = -1;
  GrantId landing_grant = 0;
  std::vector<std::byte> wanted;  ///< reads: what must arrive
  std::shared_ptr<Exposure> exposure;
  std::uint64_t word = 0, compare = 0, operand = 0;  ///< atomics
};

/// Posted sends of one queue pair, oldest first.
class WorkLedger {
 public:
  void posted(Work work) { outstanding_.push_back(std::move(work)); }

  /// Takes out the request that completed, and before it those that needed no completion because
  /// they were not signaled. Empty, with a reason, when the completion is not a legal one.
  std::vector<Work> completed(std::uint64_t wr_id, std::string* violation);

  const std::deque<Work>& outstanding() const { return outstanding_; }
  bool empty() const { return outstanding_.empty(); }
  /// Work that no completion will come for, because its queue pair is gone.
  std::deque<Work> abandon() { return std::exchange(outstanding_, {}); }

 private:
  std::deque<Work> outstanding_;
};

}  // namespace weft::worlds

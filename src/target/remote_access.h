// Memory semantics at the target: what a write, a read or an atomic may touch, and the touching.
// Every carrier comes here, so that one rule decides. Stateless; the caller holds the lock that its
// carrier asks for, and clears memory::Hold::kRemote when it has done with a place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tl/expected.hpp>

#include "memory/key_table.h"
#include "queue/queue_pair.h"
#include "target/refusal.h"
#include "weft/work.h"

namespace weft::target {

/// A part of what a request touches.
struct RemoteRange {
  RemoteKey key;
  std::uint64_t address;  ///< of the part
  std::uint64_t bytes;    ///< of the part
  /// With the first part, the bytes of the whole request: all of it is checked before any of it is
  /// touched. With others, those of the part.
  std::uint64_t request_bytes;
  Access need;
  std::uint64_t use;  ///< names the request: a one-shot key serves all its parts and no other
};

/// Whether the queue pair serves such requests at all.
inline bool serves(const queue::QueuePair& qp, Access need) {
  return qp.shared->serves_rdma && has(qp.attributes.access, need);
}

/// The memory, its key published under memory::Hold::kRemote.
tl::expected<memory::Place, memory::AccessError> open(const queue::QueuePair& qp,
                                                      const RemoteRange& range);

/// False: the memory has gone, which is counted.
bool store(queue::QueuePair& qp, memory::Place to, std::span<const std::byte> bytes);
bool load(queue::QueuePair& qp, std::span<std::byte> bytes, memory::Place from);

struct AtomicRequest {
  SendOp op;  ///< kCompareSwap, kFetchAdd or kAtomicWrite
  RemoteKey key;
  std::uint64_t address;
  std::uint64_t compare;
  std::uint64_t operand;  ///< to swap in, to add, to write
};

/// What an atomic asks of a queue pair and of a key.
constexpr Access need_of(SendOp atomic) {
  return atomic == SendOp::kAtomicWrite ? Access::kRemoteWrite : Access::kRemoteAtomic;
}

/// Executes it; gives the word that was there before (0 for kAtomicWrite). Publishes nothing any
/// more when it returns.
tl::expected<std::uint64_t, Refusal> execute(queue::QueuePair& qp, const AtomicRequest& request,
                                             std::uint64_t use);

}  // namespace weft::target

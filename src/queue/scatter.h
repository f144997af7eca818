// Bytes into what a scatter list describes: a receive buffer, or where a read or an atomic puts
// what it brings. Each element is checked with the queue pair's own keys. Stateless; the caller
// holds the lock of the queue that owns the list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "memory/flight.h"
#include "queue/queue_pair.h"

namespace weft::queue {

/// Writes `bytes` to [offset, ...) of the list; its keys are published under `hold` meanwhile.
/// kLocalLengthError when they do not fit; kLocalProtectionError when a key or the memory refuses.
/// Memory that has gone is counted.
CompletionStatus scatter(QueuePair& qp, std::span<const Sge> sges, std::uint64_t offset,
                         std::span<const std::byte> bytes,
                         memory::Hold hold = memory::Hold::kScatter);

/// The same, but nothing is counted: for a fast path that leaves what it cannot write to the code
/// for all cases, which writes it again from the start.
CompletionStatus try_scatter(QueuePair& qp, std::span<const Sge> sges, std::uint64_t offset,
                             std::span<const std::byte> bytes);

}  // namespace weft::queue

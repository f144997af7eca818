// Copies between this process's memory and a peer's in another process: plain copies where the
// peer's memory is mapped here, system calls otherwise. Every element of the list is checked with
// its owner's keys. Stateless; the caller holds the initiator's send_lock and has published the
// peer's key (neighbour_target.h).
#pragma once

#include <cstdint>

#include "host/link.h"
#include "path/neighbour_target.h"
#include "queue/queue_pair.h"

namespace weft::path {

/// How it went.
enum class Copied : std::uint8_t {
  kDone,
  kOwnFault,     ///< our own list cannot be touched
  kTargetFault,  ///< the peer's memory is gone
  kTargetGone,   ///< its process is
  kNotAllowed,   ///< the kernel does not let us: the peer has to do it
};

/// Message bytes [offset, offset + n) of the element to the peer's memory; the end comes last.
Copied copy_to_target(queue::QueuePair& qp, queue::SendWqe& wqe, const host::Outbound& link,
                      std::uint64_t offset, std::uint64_t n, const TargetPlace& to);
/// The same for a whole message at `from`, to memory that is not mapped here. False: some of it
/// could not be touched, or the kernel does not let us.
bool write_by_system_call(const host::Outbound& link, const std::byte* from, std::uint64_t to,
                          std::uint64_t n);
/// The other way.
Copied copy_from_target(queue::QueuePair& qp, queue::SendWqe& wqe, const host::Outbound& link,
                        std::uint64_t offset, std::uint64_t n, const TargetPlace& from);
bool read_by_system_call(const host::Outbound& link, std::byte* to, std::uint64_t from,
                         std::uint64_t n);

}  // namespace weft::path

// The peer's memory as an initiator in another process sees it: checks a key in the tables that the
// peer shows, under flight words that keep the memory where it is until they are cleared. Under the
// send_lock of the queue pair that asks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "host/link.h"
#include "memory/grant.h"
#include "weft/access.h"
#include "weft/types.h"

namespace weft::path {

/// What a check found. Good while the flight words are published.
struct TargetPlace {
  enum class Verdict : std::uint8_t {
    kAllowed,
    kRefused,           ///< a rule forbids it
    kOwnerMustExecute,  ///< a one-shot key, or the peer checks all keys itself
  };
  Verdict verdict = Verdict::kRefused;
  std::byte* mapped = nullptr;  ///< in an arena that this process has mapped
  std::uint64_t address = 0;    ///< otherwise: in the peer's process
};

/// A key that was checked before, for the fast path.
struct TargetGrant : memory::GrantedRange<RemoteKey> {
  std::uint64_t flight = 0;
  std::byte* mapped = nullptr;       ///< where `base` is in this process, if it is in an arena
  std::uint32_t arenas_changed = 0;  ///< of the link, when it was asked
  bool fence = false;                ///< has to be between the flight word and holds()
  std::uint64_t target = 0;          ///< where `base` is in the peer's
};

/// The connected queue pair of the peer.
struct TargetPeer {
  const host::PublicQueuePair* entry = nullptr;
  std::uint64_t word = 0;    ///< epoch and readiness when it was found
  std::uint64_t flight = 0;  ///< its flight word
  PdId pd;
  Access access = Access::kNone;  ///< what it lets us do
  Qpn qpn;

  bool holds() const {
    return entry != nullptr && entry->word.load(std::memory_order_acquire) == word;
  }
  /// One-shot keys are claimed by the peer alone, so the request needs no name.
  memory::RemoteAccess request(std::uint64_t address, std::uint64_t length, Access need) const {
    return {pd, qpn, address, length, need, 0};
  }
};

/// Publishes the key in `slot`, checks it, and leaves it published if it is allowed.
TargetPlace check_target(host::Outbound& link, const TargetPeer& peer, host::FlightSlot& slot,
                         RemoteKey key, const memory::RemoteAccess& access);
/// What may be remembered about a key: not of one-shot memory, nor of such as only the peer itself
/// can reach, nor of a window of type 2, which seldom lives for a second request.
TargetGrant grant_target(host::Outbound& link, const TargetPeer& peer, RemoteKey key, Access need);

}  // namespace weft::path

// What a user of channels may set, with the ranges and the defaults. Plain values, freely copied;
// read once, when a context is made or a connection is opened, and checked there: a value outside
// its range is refused with a message that names the range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/result.h"
#include "weft/types.h"

namespace weft::channel {

/// Buffers of one size: how much a message may have to fit one, and how many there are in a ring.
struct PhaseSize {
  std::uint32_t payload_bytes = 0;
  std::uint32_t slots = 4;

  bool operator==(const PhaseSize&) const = default;
};

/// What of a vector decides whether it needs larger buffers, and how large.
enum class Policy : std::uint8_t {
  kInOrder,    ///< what stands before the first oversized element goes at once
  kAny,        ///< one oversized element, and buffers are wanted that hold all of the vector
  kLargest,    ///< the largest element decides, and is what buffers have to hold
  kSum,        ///< the sum of all lengths decides, also if no element is oversized
  kFromLast,   ///< the last oversized element decides: they are examined from the last one down
  kCallerSays  ///< the size that the caller gives along with the vector decides
};

/// When the sender makes its large buffers.
enum class ProvisionOrder : std::uint8_t {
  kAfterAcknowledgement,   ///< nothing is made in vain when the peer refuses
  kBeforeAcknowledgement,  ///< right after the control message was sent, while the peer is at work
  kBeforeControl           ///< before the control message is sent
};

/// How messages travel in one phase. Above the largest buffer it is always rendezvous.
enum class Transfer : std::uint8_t { kEager, kRendezvous };

/// Who closes the window through which a peer reads a message in place.
enum class LoanEnd : std::uint8_t {
  kSenderCloses,  ///< when the peer has said that it read: quickest where messages need the peer
  kPeerCloses     ///< by its last message: one word less on the wire, and none of the sender's work
};

struct Settings {
  /// Small: 100 to 2,000 bytes. Every further one: 1,000 to 200,000, and larger than the last.
  std::vector<PhaseSize> phases{{512, 3}, {16384, 4}};
  std::uint8_t start_phase = 0;  ///< with the last one: fixed buffers
  /// Oversized is what is strictly larger: bytes, or, if that is 0, a share of the phase's size.
  std::uint32_t threshold_bytes = 0;
  std::uint32_t threshold_percent = 100;  ///< 80 to 99, or 100: the size itself
  Policy policy = Policy::kInOrder;
  /// None: after the acknowledgement in strict mode, otherwise before it.
  std::optional<ProvisionOrder> order;
  bool strict = false;             ///< while growth is pending every call returns 0
  bool keep_small = false;         ///< keep the buffers of the phase that a channel leaves
  std::vector<Transfer> transfer;  ///< per phase; a phase that is not named is eager
  LoanEnd loan_end = LoanEnd::kSenderCloses;
  std::uint64_t max_message_bytes = std::uint64_t{1} << 30;
  Nanoseconds acknowledgement_timeout_ns = 50'000'000;
  std::uint32_t control_repeats = 3;  ///< then the channel goes on small, and asks again later
  Nanoseconds refusal_pause_ns = 100'000'000;   ///< before growth is asked for again
  Nanoseconds shrink_after_ns = 1'000'000'000;  ///< without an oversized message; 0: never
  /// Sizes are learned: growth is asked for only when this many of the last 64 messages were
  /// oversized, others go in pieces. 0: at once.
  std::uint32_t learn_after = 0;
  /// As little as possible for a connection that is quiet. Its send ring exists only while it is
  /// used; its first receive ring shares the key of the control block and stays as long as that;
  /// and where the peer wants it too, the identifiers of the connection manager, which take more
  /// memory than all the rest, go once the connection stands. A peer that dies is then noticed by
  /// probes (ContextOptions::probe_every_ns), not at once.
  bool lean = false;

  /// For ten thousand connections that hardly ever speak: the smallest buffers, and lean.
  static Settings tiny();
  /// The largest buffers from the start: what this library is compared with.
  static Settings fixed(std::uint32_t payload_bytes = 16384, std::uint32_t slots = 4);

  bool operator==(const Settings&) const = default;
};

/// Refuses what lies outside its range; a warning, which may be empty, when all is well.
Result<std::string> check(const Settings& settings);

}  // namespace weft::channel

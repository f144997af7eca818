// What two ends of a channel write into each other's memory: frames in the slots of a ring, the
// status words and the acknowledgement slot in the control block. Pure layout, owned by nobody. All
// of it is read as if an enemy had written it, and may change while it is read.
//
// A frame lies at the end of its slot, so that the flag that says "complete" has a fixed place:
//
//      slot                                                            slot + slot_bytes
//      |  unused  | head: sequence, consumed | records ... | tail: length, sequence |
//
// Each record is 8 bytes (kind, length) and its payload, padded to 8. The tail is the last aligned
// word, which is written last and whole; a frame counts when head and tail carry the sequence that
// the receiver expects next. Lengths are multiples of 8; the last bit of the tail's says that the
// frame holds nothing but whole messages. Little-endian, as all machines are that this runs on.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/lock.h"
#include "weft/types.h"

namespace weft::channel {

static_assert(std::endian::native == std::endian::little);

inline constexpr std::uint32_t kHeadBytes = 8, kTailBytes = 8, kRecordBytes = 8;
inline constexpr std::uint32_t kLineBytes = 64;  ///< what travels between two processors at once
/// What a slot has beyond its payload: head, tail, and the record of one message in pieces.
inline constexpr std::uint32_t kSlotOverhead = kHeadBytes + kTailBytes + kRecordBytes + 8;

constexpr std::uint32_t round_up_8(std::uint32_t n) { return (n + 7) & ~7u; }
constexpr std::uint32_t slot_bytes_of(std::uint32_t payload_bytes) {
  return round_up_8(payload_bytes) + kSlotOverhead;
}

/// Of any ring.
inline constexpr std::uint32_t kSlotsLeast = 2, kSlotsMost = 256;

/// In the tail's length: nothing but whole messages.
inline constexpr std::uint32_t kPlain = 1;

/// What a frame's flags carry for a sequence number: never 0, so that cleared memory is no frame.
constexpr std::uint32_t tag_of(std::uint32_t sequence) { return sequence << 1 | 1; }

enum class Kind : std::uint32_t {
  kWhole = 1,  ///< a message
  kBegin,      ///< the first piece of one: its length in all (8 bytes), then bytes
  kMore,       ///< the next piece
  kMove,       ///< control message: provision the ring of another phase
  kLast,       ///< nothing follows in this ring
  kAbandon,    ///< the ring that was provisioned will not be used
  kOffer,      ///< a message to be read from the sender's memory
  kClose       ///< nothing follows at all
};
inline constexpr auto kLastKind = Kind::kClose;

struct RecordHead {
  Kind kind{};
  std::uint32_t length = 0;  ///< of the payload
};

// Head, record and tail are written as whole words: what copies a frame right after it was written
// reads words too, and so need not wait until narrower stores have reached the cache.
constexpr std::uint64_t word_of(std::uint32_t low, std::uint32_t high) {
  return std::uint64_t{high} << 32 | low;
}
constexpr std::uint64_t record_word(Kind kind, std::uint32_t length) {
  return word_of(static_cast<std::uint32_t>(kind), length);
}

/// Sequences of control messages: which request (16 bits), and which repetition of it (16 bits). A
/// repetition that overtakes its request is so never answered with the answer to another.
inline constexpr std::uint32_t kRepeatsMost = 65'000;
constexpr std::uint32_t request_of(std::uint32_t sequence) { return sequence >> 16; }
constexpr std::uint32_t first_of_next_request(std::uint32_t sequence) {
  return (request_of(sequence) + 1) << 16;
}

/// The payload of kMove and kAbandon.
struct Move {
  std::uint32_t channel = 0;  ///< the sender's number for it, as it said in its hello
  std::uint32_t phase = 0, slot_bytes = 0, slots = 0, sequence = 0;
  std::uint32_t strict = 0;  ///< 1: nothing follows in this ring
};
/// The payload of kOffer: a message, or a piece of one, that the receiver reads by itself.
struct Offer {
  std::uint64_t address = 0, length = 0;
  std::uint64_t total = 0;  ///< of the message that begins here; 0: a further piece
  std::uint32_t key = 0, number = 0;
  std::uint32_t returns = 0;  ///< 1: the receiver closes the key when it has read; 0: it says so
  std::uint32_t spare = 0;
};
/// Offers that may be unread at one time.
inline constexpr std::uint32_t kOffersMost = 16;
/// A set of offers in one word: sixteen in a row, of which the first is named.
constexpr std::uint32_t offer_set(std::uint32_t first) { return first & 0xFFFF; }
constexpr std::uint32_t with_offer(std::uint32_t set, std::uint32_t number) {
  const std::uint32_t place = (number - set) & 0xFFFF;
  return place < 16 ? set | 1u << (16 + place) : set;
}
constexpr bool has_offer(std::uint32_t set, std::uint32_t number) {
  const std::uint32_t place = (number - set) & 0xFFFF;
  return place < 16 && (set >> (16 + place) & 1) != 0;
}

/// How a receiver wants to learn of what was written to it.
enum class Mode : std::uint32_t {
  kAsleep = 0,    ///< by a bell with each frame
  kWatching = 1,  ///< not at all: it looks
  kWantsRoom = 2  ///< by a bell, also when it gets room to send
};

/// Written by the receiver of a direction into the sender's control block, always as a whole. Every
/// word of 8 bytes only grows or stands for itself, so that a torn mixture of two is harmless.
struct Status {
  std::uint32_t consumed = 0;  ///< frames whose slots are free again
  std::uint32_t mode = 0;      ///< Mode
  std::uint32_t pulled = 0;    ///< offers that have been read, or will never be
  std::uint32_t left = 0;      ///< those of them that were recalled and not read, a set
  std::uint32_t repeat = 0;    ///< as a sender: the control message's newest sequence
  std::uint32_t recalled = 0;  ///< as a sender: offers that shall not be read any more, a set
  std::uint32_t wishes = 0;    ///< see kWishSmaller
  std::uint32_t spare = 0;
};
// These two are read as one word: an offer that is done with was read, or was left.
static_assert(offsetof(Status, pulled) % 8 == 0 &&
              offsetof(Status, left) == offsetof(Status, pulled) + 4);
inline constexpr std::uint32_t kWishSmaller = 1;  ///< the receiver needs its memory back

/// The control block of one end, which the peer writes.
inline constexpr std::uint32_t kAcknowledgementBytes = 48;
inline constexpr std::uint32_t kStatusOffset = 0, kAcknowledgementOffset = sizeof(Status);
inline constexpr std::uint32_t kControlBytes = kAcknowledgementOffset + kAcknowledgementBytes;
/// What an end sends of the same two, for devices that take nothing straight from the caller's
/// hand.
inline constexpr std::uint32_t kStatusStage = 0, kAcknowledgementStage = sizeof(Status);
inline constexpr std::uint32_t kStageBytes = kControlBytes;
inline constexpr std::uint32_t kInlineMost = kAcknowledgementBytes;
static_assert(kControlBytes == 80 && sizeof(Status) <= kInlineMost);

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
void store(std::byte* to, const T& value) {
  std::memcpy(to, &value, sizeof value);
}

/// A word that the peer writes while this end looks: acquire, so that what was written before it
/// is seen behind it. Its partner is the last word of an RDMA write.
inline std::uint32_t watch32(const std::byte* word) {
  return __atomic_load_n(reinterpret_cast<const std::uint32_t*>(word), __ATOMIC_ACQUIRE);
}
inline std::uint64_t watch64(const std::byte* word) {
  return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(word), __ATOMIC_ACQUIRE);
}

/// Looks at such a word up to so many times; before that, a few times between so many pauses.
inline bool comes_to_be(const std::byte* word, std::uint32_t wanted, std::uint32_t looks,
                        std::uint32_t pauses) {
  constexpr std::uint32_t kLooksPerPause = 4;
  for (; pauses > 0; --pauses) {
    for (std::uint32_t i = 0; i < kLooksPerPause; ++i) {
      if (watch32(word) == wanted) return true;
    }
    base::relax();
  }
  for (; looks > 0; --looks) {
    if (watch32(word) == wanted) return true;
  }
  return false;
}

}  // namespace weft::channel

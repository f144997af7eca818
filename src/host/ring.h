// A ring of records from one process to another: single producer, single consumer, in memory that
// both may write. A record lies in whole cache lines; its first word, the ticket, is stored last
// (release) and tells the consumer that the record is there, so a small message costs one cache
// line. The consumer may answer inside a record (a status, data); storing `head` behind it
// (release) gives record and answer back. A record without an answer was executed.
//
// A ticket is the record's position under a secret of the ring's, so that no payload of an older
// record passes for one.
//
// The data area is address space for the largest ring; only what traffic needed so far has pages.
// Each side keeps its own positions and believes nothing: a broken ring is reported, never
// followed. Whoever calls holds the lock of its side. docs/memory-model.md states the
// protocol.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "host/shared_memory.h"

namespace weft::host {

inline constexpr std::uint32_t kLine = 64;
inline constexpr std::size_t kRingControlBytes = 4096;
inline constexpr std::uint32_t kFirstRingBytes = 32 * 1024;
inline constexpr std::uint32_t kMaxRingBytes = 1024 * 1024;
inline constexpr std::size_t kRingMemoryBytes = kRingControlBytes + kMaxRingBytes;

/// What a record asks for; the values above kGrow belong to those who use the ring.
enum class RecordKind : std::uint8_t { kPad, kGrow, kFirstOfUser };

/// First bytes of a record, as they lie in memory. The ticket is separate: see Record.
struct RecordHeader {
  std::uint8_t kind = 0;
  std::uint8_t flags = 0;
  std::uint16_t lines = 0;        ///< of the whole record
  std::uint32_t destination = 0;  ///< queue pair
  std::uint32_t source = 0;       ///< queue pair
  std::uint32_t sequence = 0;     ///< of the record among those of its queue pair
  std::uint32_t length = 0;       ///< of the whole message
  std::uint32_t immediate = 0;    ///< or a key, a queue key, the size of a grown ring
  std::uint32_t bytes = 0;        ///< of payload in this record
};

struct alignas(kLine) Record {
  std::atomic<std::uint64_t> ticket;
  RecordHeader header;
  std::uint16_t status;   ///< the consumer's answer; 0 when it is published
  std::uint8_t executed;  ///< the same: of the messages in it, when there are several
  std::uint8_t awaited;   ///< somebody waits for it to come back
  std::byte payload[1];   ///< 24 in this line, and on into the next ones
};
static_assert(sizeof(Record) == kLine && offsetof(Record, payload) == 40);
inline constexpr std::uint32_t kRecordPayloadAt = offsetof(Record, payload);

constexpr std::uint32_t lines_for(std::uint32_t bytes) {
  return (kRecordPayloadAt + bytes + kLine - 1) / kLine;
}

struct RingControl {
  alignas(kLine) std::atomic<std::uint64_t> head;
  alignas(kLine) std::uint64_t secret;  ///< constant
};

constexpr std::uint64_t ticket_of(std::uint64_t secret, std::uint64_t position) {
  return (secret ^ position) | 1;  // never what a fresh page holds
}

class RingProducer {
 public:
  /// Maps the control page and the first pages of the data area of memory that create() made.
  static Result<RingProducer> create();
  int fd() const { return memory_.fd(); }

  /// A record with room for `bytes` of payload, not yet visible; nullptr when there is no room now.
  /// `bytes` <= max_payload(). The caller fills the payload, and publishes it with its header.
  Record* reserve(std::uint32_t bytes) {
    const std::uint32_t lines = lines_for(bytes);
    if (tail_ + std::uint64_t{lines} * kLine > free_until_) [[unlikely]] {
      return reserve_slowly(lines);
    }
    reserved_lines_ = lines;
    return at(tail_);
  }
  struct Note {
    void* owner;  ///< null: nobody waits for it
    std::uint32_t cookie;
    bool awaited = false;  ///< the consumer is asked to give it back soon
    std::uint8_t messages = 1;
  };
  /// `header.lines` is the ring's.
  void publish(const RecordHeader& header, const Note& note) { put(reserved_lines_, header, note); }
  std::uint32_t max_payload() const { return size_ / 4 - kLine; }

  /// The consumer gave back records that were not popped yet.
  bool moved() const { return control()->head.load(std::memory_order_acquire) != collected_; }
  bool empty() const { return collected_ == tail_; }

  struct Answered {
    void* owner;  ///< null: nobody waits for it
    std::uint32_t cookie;
    std::uint16_t lines;
    std::uint8_t messages;
    bool awaited;
    Record* record;  ///< answer and payload, until pop()
  };
  /// The oldest record that the consumer gave back; false when there is none.
  bool peek(Answered* out);
  /// Done with what peek() showed.
  void pop();
  /// Before that: takes out, and counts, the records right behind it that are its like: given back,
  /// executed without an answer, of its owner, in one line, awaited by nobody, their cookies those
  /// that follow its own.
  std::uint8_t pop_followers(const Answered& first, std::uint8_t most);
  /// The consumer's position makes no sense: it is broken or hostile.
  bool broken() const { return broken_; }
  /// Records of this owner are nobody's from now on.
  void forget(const void* owner);
  /// For each record that is still out; the owner is about to learn that the consumer is gone.
  template <class Visit>
  void for_each_pending(Visit visit) {
    for (std::size_t i = 0; i < pending_count_; ++i) {
      Pending& pending = pending_at(i);
      if (pending.owner != nullptr) visit(pending.owner);
    }
  }

 private:
  struct Pending {
    void* owner = nullptr;
    std::uint32_t cookie = 0;
    std::uint16_t lines = 0;
    std::uint8_t messages = 0;
    bool awaited = false;
  };

  RingControl* control() const { return reinterpret_cast<RingControl*>(memory_.data()); }
  Record* at(std::uint64_t position) const {
    return reinterpret_cast<Record*>(memory_.data() + kRingControlBytes + (position & (size_ - 1)));
  }
  Pending& pending_at(std::size_t i) {
    return pending_[(pending_first_ + i) & (pending_.size() - 1)];
  }
  bool has_room(std::uint64_t lines) const { return tail_ + lines * kLine - collected_ <= window_; }
  void put(std::uint32_t lines, RecordHeader header, const Note& note) {
    Record* record = at(tail_);
    header.lines = static_cast<std::uint16_t>(lines);
    // Nothing here is read: the line may still be on its way from the other core.
    record->header = header;
    record->status = 0;
    record->executed = 0;
    record->awaited = note.awaited;
    record->ticket.store(ticket_of(secret_, tail_), std::memory_order_release);
    // While it travels; the answer is looked for under the lock that the caller holds.
    tail_ += std::uint64_t{lines} * kLine;
    pending_at(pending_count_++) = {note.owner, note.cookie, header.lines, note.messages,
                                    note.awaited};
  }
  Record* reserve_slowly(std::uint32_t lines);
  void find_room();
  Record* full();
  void grow();

  SharedMemory memory_;
  std::uint64_t secret_ = 0;
  std::uint64_t tail_ = 0;        ///< behind the last record
  std::uint64_t collected_ = 0;   ///< records before it were given back and looked at
  std::uint64_t returned_ = 0;    ///< the consumer's head, checked
  std::uint64_t free_until_ = 0;  ///< records may end here without another look; perhaps later
  std::uint32_t size_ = kFirstRingBytes;
  std::uint32_t window_ = kFirstRingBytes;  ///< below size_ while a growth is not yet consumed
  std::uint64_t grown_at_ = 0;
  std::uint32_t reserved_lines_ = 0;
  bool wants_to_grow_ = false;
  bool broken_ = false;
  std::vector<Pending> pending_;
  std::size_t pending_first_ = 0, pending_count_ = 0;
};

class RingConsumer {
  /// Lines of a record that a consumer begins to fetch when it finds the first.
  static constexpr std::uint32_t kLinesAhead = 16;

 public:
  RingConsumer() = default;
  /// Memory that a peer sent; its size has been checked against kRingMemoryBytes.
  explicit RingConsumer(SharedMemory memory)
      : memory_(std::move(memory)),
        secret_(reinterpret_cast<const RingControl*>(memory_.data())->secret) {}

  bool ready() const {
    return at(position_)->ticket.load(std::memory_order_acquire) == ticket_of(secret_, position_);
  }
  struct Taken {
    RecordHeader header;  ///< a copy: the producer may change its own
    Record* record;       ///< where answer and payload are; header.bytes fit into it
  };
  /// The next record, if there is one; it stays until the next call. False: nothing there, or the
  /// ring is broken.
  bool take(Taken* out) { return ready() && take_ready(out); }
  /// The same for a caller that has just asked ready().
  bool take_ready(Taken* out) {
    read_header(out);
    if (!is_users(out->header) || !fits(out->header) || broken_) [[unlikely]]
      return take_behind_own(out);
    accept(*out);
    return true;
  }
  /// The next record for a caller that has just asked ready(), if it is a user's and lies in one
  /// line; it is taken by accept_line().
  bool peek_line(Taken* out) const {
    read_header(out);
    return is_users(out->header) && out->header.lines == 1 &&
           out->header.bytes <= kLine - kRecordPayloadAt && !broken_;
  }
  void accept_line(const Taken& taken) {
    position_ += kLine;
    awaited_ = awaited_ || taken.record->awaited != 0;
  }
  /// Gives back everything that was taken.
  void give_back();
  /// Somebody waits for what was taken and not yet given back.
  bool awaited() const { return awaited_; }
  bool broken() const { return broken_; }

 private:
  Record* at(std::uint64_t position) const {
    return reinterpret_cast<Record*>(memory_.data() + kRingControlBytes + (position & (size_ - 1)));
  }
  /// The record lies inside the ring, and its payload inside the record.
  bool fits(const RecordHeader& header) const {
    const std::uint64_t left = size_ - (position_ & (size_ - 1));
    const std::uint64_t bytes = std::uint64_t{header.lines} * kLine;
    return header.lines != 0 && bytes <= left && header.bytes <= bytes - kRecordPayloadAt;
  }
  static bool is_users(const RecordHeader& header) {
    return header.kind >= static_cast<std::uint8_t>(RecordKind::kFirstOfUser);
  }
  void read_header(Taken* out) const {
    out->record = at(position_);
    std::memcpy(&out->header, &out->record->header, sizeof(RecordHeader));
  }
  void accept(const Taken& taken) {
    const std::uint32_t lines = taken.header.lines;
    for (std::uint32_t i = 1; i < std::min(lines, kLinesAhead); ++i) {
      __builtin_prefetch(reinterpret_cast<std::byte*>(taken.record) + i * kLine);
    }
    position_ += std::uint64_t{lines} * kLine;
    awaited_ = awaited_ || taken.record->awaited != 0;
  }
  bool take_behind_own(Taken* out);
  bool skip_own(const RecordHeader& header);

  SharedMemory memory_;
  std::uint64_t secret_ = 0;
  std::uint64_t position_ = 0;
  std::uint32_t size_ = kFirstRingBytes;
  bool awaited_ = false;
  bool broken_ = false;
};

}  // namespace weft::host

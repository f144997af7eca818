// A queue pair's way into the ring of its link: reserves and publishes its records, numbers them,
// and tells which answers still mean something. The ring's lock is kept from one record to the
// next, because to take it again would wait until the last record has reached the other core; the
// owner lets go of it with leave() before it does anything else. Owned by the path; under the
// send_lock of the queue pair.
#pragma once

#include <cstdint>
#include <memory>

#include "host/link.h"
#include "path/neighbour_record.h"
#include "queue/queue_pair.h"

namespace weft::path {

class NeighbourOutbox {
 public:
  explicit NeighbourOutbox(host::Outbound& link) : link_(link) {}

  void hold() {
    if (held_) return;
    link_.lock.lock();
    held_ = true;
  }
  void leave() {
    if (!held_) return;
    held_ = false;
    link_.lock.unlock();
  }
  /// The most payload of a record. Holds the ring, so that it stays true.
  std::uint32_t room() {
    hold();
    return link_.ring.max_payload();
  }

  /// Room for a record, with the ring held; nullptr: the queue pair is told when there is some.
  host::Record* reserve(queue::QueuePair& qp, std::uint32_t bytes) {
    hold();
    host::Record* record = link_.ring.reserve(bytes);
    if (record == nullptr) [[unlikely]]
      wait_for_room(qp);
    return record;
  }
  host::RecordHeader header_for(const queue::QueuePair& qp, Ask ask, std::uint32_t bytes) const {
    host::RecordHeader header;
    header.kind = static_cast<std::uint8_t>(ask);
    header.flags = static_cast<std::uint8_t>((qp.attributes.port - 1u) << kPortShift);
    header.destination = qp.attributes.remote_qpn.value;
    header.source = qp.qpn.value;
    header.sequence = next_sequence_;
    header.bytes = bytes;
    return header;
  }
  /// The record that was reserved, for the element `index` of the send queue; `completes`: it is
  /// the element's last.
  struct Note {
    queue::QueuePair* owner;
    std::uint32_t index;
    bool completes;
    bool awaited;  ///< somebody waits for the answer
    std::uint8_t messages = 1;
  };
  void publish(const host::RecordHeader& header, const Note& note) {
    // Before: whoever serves the reply must find that we wait for the answer.
    if (note.awaited) link_.await(1);
    link_.ring.publish(header, {.owner = note.owner,
                                .cookie = cookie(note.index, note.completes),
                                .awaited = note.awaited,
                                .messages = note.messages});
    next_sequence_ += note.messages;
  }
  /// One that nobody waits for, and that has no number.
  void publish_unnumbered(const host::RecordHeader& header) {
    link_.ring.publish(header, {.owner = nullptr, .cookie = 0});
  }

  /// The answer is to a record that still means something.
  bool knows(std::uint32_t cookie) const { return (cookie >> kRunShift & kRunMask) == run_; }
  static bool completes(std::uint32_t cookie) { return (cookie & kCompletes) != 0; }
  /// The element that it is for, which lies behind `head`.
  static std::uint32_t index_of(std::uint32_t cookie, std::uint32_t head) {
    return head + ((cookie - head) & kIndexMask);
  }
  /// Whatever is in the ring means nothing any more. The next record has this number.
  void begin_again(std::uint32_t sequence) {
    run_ = (run_ + 1) & kRunMask;
    next_sequence_ = sequence;
  }
  std::uint32_t next_sequence() const { return next_sequence_; }

  /// An element of the queue pair waits for answers.
  void set_waits(bool waits) {
    if (waits == waits_) [[likely]]
      return;
    hold();
    link_.await(waits ? 1 : -1);
    waits_ = waits;
  }
  /// The queue pair stops: the ring forgets it.
  void forget(const queue::QueuePair& qp);

 private:
  // A cookie names the element by the low bits of its index, and the run of records that it is of.
  static constexpr std::uint32_t kIndexMask = 0x1'FFFF;
  static constexpr unsigned kRunShift = 17;
  static constexpr std::uint32_t kRunMask = 0x3FFF;
  static constexpr std::uint32_t kCompletes = 1u << 31;

  std::uint32_t cookie(std::uint32_t index, bool completes) const {
    return (completes ? kCompletes : 0) | run_ << kRunShift | (index & kIndexMask);
  }

  void wait_for_room(queue::QueuePair& qp);

  host::Outbound& link_;
  std::uint32_t next_sequence_ = 0;  ///< of the next record
  std::uint32_t run_ = 0;            ///< advances when records in the ring lose their meaning
  bool held_ = false;                ///< the ring's lock is
  bool waits_ = false;               ///< counted in the link
};

}  // namespace weft::path

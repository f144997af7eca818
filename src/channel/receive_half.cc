#include "channel/receive_half.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/assert.h"

namespace weft::channel {
namespace {

/// How long a strict sender waits for the application to be done with the ring that is to go first.
constexpr Nanoseconds kDrainTime = 10'000'000;
/// Where no frame ever lands.
alignas(8) constexpr std::byte kNoTail[kTailBytes]{};

}  // namespace

bool ReceiveHalf::fail(std::string_view why) {
  if (error_.empty()) error_ = why;
  outlet_.fail();
  return false;
}

bool ReceiveHalf::start() {
  const std::uint32_t phase = settings_.start_phase;
  const PhaseSize& size = settings_.phases[phase];
  auto ring =
      wires_.provision(RingUse::kReceive, phase, size.slots, slot_bytes_of(size.payload_bytes));
  if (!ring) return false;
  current_ = *ring;
  resize_frames(size.slots);
  aim();
  return true;
}

// Where the tail of the next frame will be.
void ReceiveHalf::aim() {
  tail_ = current_.slot((scan_ - base_) % current_.slots + 1) - kTailBytes;
  last_tail_ = current_.slot(current_.slots) - kTailBytes;
}

void ReceiveHalf::drop(Ring& ring) {
  if (!ring.exists()) return;
  if (ring.registered) wires_.unregister(ring);
  wires_.release(ring);
  ring = {};
}

const ReceiveHalf::ColdState ReceiveHalf::kNoColdState;

void ReceiveHalf::stop() {
  for (Ring* ring : {&current_, &make_cold().pending, &make_cold().retired}) drop(*ring);
  for (Ring& ring : cold_->kept) drop(ring);
  for (Pull& pull : cold_->pulls) {
    if (pull.region.exists()) wires_.give_back(pull.region);
  }
  if (cold_->message.exists()) wires_.give_back(cold_->message);
  cold_.reset();
}

// An answer that the peer may still ask for again is kept.
void ReceiveHalf::rest() {
  if (cold_ == nullptr || busy() || answered_ != 0 || cold_->pending.exists() ||
      !cold_->kept.empty() || cold_->message_bytes != 0) {
    return;
  }
  cold_.reset();
}

void ReceiveHalf::resize_frames(std::uint32_t slots) {
  const std::uint32_t size = std::bit_ceil(slots + cold().retired.slots);
  if (frames_ != nullptr && size - 1 <= frames_mask_) return;
  auto larger = std::make_unique<Frame[]>(size);
  for (std::uint32_t i = room_.consumed; i != scan_ && frames_ != nullptr; ++i) {
    larger[i & (size - 1)] = frame_at(i);
  }
  frames_ = std::move(larger);
  frames_mask_ = size - 1;
}

bool ReceiveHalf::scan(std::uint32_t& peer_consumed) {
  bool found = false;
  while (error_.empty() && !peer_closed_) {
    const std::byte* end = tail_ + kTailBytes;
    const std::uint64_t tail = watch64(tail_);
    if (static_cast<std::uint32_t>(tail >> 32) != tag_of(scan_)) break;
    if (is_full()) {
      fail("the peer writes more frames than it was given slots");
      break;
    }
    const std::uint32_t length = static_cast<std::uint32_t>(tail) & ~kPlain;
    if (length < kHeadBytes + kTailBytes || length > current_.slot_bytes || length % 8 != 0) {
      fail("a frame is longer than its slot, or shorter than a frame can be");
      break;
    }
    if (load<std::uint32_t>(end - length) != tag_of(scan_)) {
      fail("a frame begins with another sequence than it ends with");
      break;
    }
    peer_consumed = load<std::uint32_t>(end - length + 4);
    found = true;
    if (!take_frame(end - length, length)) break;
  }
  if (found) skip_controls();
  if (found && move_waits_ && cold_->move.strict != 0) finish_move();
  return found;
}

bool ReceiveHalf::take_frame(const std::byte* begin, std::uint32_t length) {
  WEFT_ASSERT(scan_ - room_.consumed <= frames_mask_);  // the entry is nobody's
  frame_at(scan_) = {begin, length, 1};
  ++figures_.frames;
  ++scan_;
  aim();
  for (std::uint32_t at = kHeadBytes; at < length - kTailBytes;) {
    const std::uint32_t left = length - kTailBytes - at;
    const auto head = load<RecordHead>(begin + at);  // left is at least 8: all is rounded to 8
    if (head.length > left - kRecordBytes || head.kind < Kind::kWhole || head.kind > kLastKind) {
      return fail("a record does not fit its frame, or is of no known kind");
    }
    const std::uint32_t step = kRecordBytes + round_up_8(head.length);
    if (!take_record(begin + at + kRecordBytes, head, at + step >= length - kTailBytes)) {
      return false;
    }
    at += step;
  }
  return true;
}

// What is for the protocol is done at once, whether or not the application receives; what is for
// the application waits for deliver().
bool ReceiveHalf::take_record(const std::byte* payload, RecordHead head, bool last_in_frame) {
  switch (head.kind) {
    case Kind::kWhole:
    case Kind::kMore:
      return true;
    case Kind::kBegin:
      return head.length >= 8 || fail("the first piece of a message has no length");
    case Kind::kMove: {
      const auto move = control_in(payload, head);
      if (!move) return false;
      if (move->strict != 0 && !last_in_frame) {
        return fail("something follows a control message that says nothing does");
      }
      return on_move(*move);
    }
    case Kind::kAbandon:
      if (!control_in(payload, head)) return false;
      finish_move();
      on_abandon();
      return true;
    case Kind::kLast:
      finish_move();
      if (!cold().pending.exists())
        return fail("the peer leaves its ring for one that was not granted");
      if (!last_in_frame) return fail("something follows the last record of a ring");
      switch_rings(scan_);
      answered_ = 0;  // the peer has got the answer
      return true;
    case Kind::kOffer:
      if (head.length != sizeof(Offer)) return fail("an offer of the wrong size");
      return on_offer(load<Offer>(payload));
    case Kind::kClose:
      peer_closed_ = true;
      measure_window();
      return last_in_frame || fail("something follows the end of a channel");
  }
  return fail("a record of no known kind");
}

// What is asked for is asked for the connection that it comes by, and for no other.
std::optional<Move> ReceiveHalf::control_in(const std::byte* payload, RecordHead head) {
  if (head.length != sizeof(Move)) {
    fail("a control message of the wrong size");
    return std::nullopt;
  }
  const auto move = load<Move>(payload);
  if (move.channel != peer_.channel) {
    fail("a control message is for another channel");
    return std::nullopt;
  }
  return move;
}

std::optional<Ring> ReceiveHalf::find_ring(const Move& move) {
  for (auto ring = cold_->kept.begin(); ring != cold_->kept.end(); ++ring) {
    if (ring->slot_bytes != move.slot_bytes || ring->slots != move.slots) continue;
    const Ring found = *ring;
    cold_->kept.erase(ring);
    return found;
  }
  return wires_.provision(RingUse::kReceive, move.phase, move.slots, move.slot_bytes);  // 682
}

// Blocks 681 to 685. A ring and its answer take longer than a small message; so they are made
// between two looks for messages. A strict sender waits: it gets both behind this frame.
bool ReceiveHalf::on_move(const Move& move) {
  ++figures_.controls;
  make_cold();
  finish_move();
  if (move.slots < kSlotsLeast || move.slots > kSlotsMost || move.slot_bytes % 8 != 0 ||
      move.slot_bytes < kSlotOverhead + 64 || move.slot_bytes > slot_bytes_of(200'000)) {
    return fail("a control message asks for buffers of a size that does not exist");
  }
  peer_.slots = std::min(peer_.slots, move.slots);
  measure_window();
  cold_->move = move;
  move_waits_ = true;
  cold_->drain_overdue = false;
  cold_->drain_deadline = 0;
  return true;
}

void ReceiveHalf::finish_move() {
  if (move_waits_ && !must_drain_first()) make_answer();
  post_answer();
}

// A strict sender's ring is freed before the new one is made, as soon as nothing of it is looked at
// any more. Who never comes to look, or keeps a view, does not stop growth: then both exist for a
// while.
bool ReceiveHalf::must_drain_first() {
  return cold_->move.strict != 0 && !settings_.keep_small && !cold_->drain_overdue &&
         !cold_->pending.exists() && !cold_->retired.exists() && room_.consumed != scan_;
}

// The order of a strict sender: the small ring is unregistered and freed, the large one allocated
// and registered (682). If that fails, there is a small one again, at another place.
void ReceiveHalf::replace_ring(const Move& move) {
  const Ring before = current_;
  tail_ = last_tail_ = kNoTail;
  drop(current_);
  auto ring = find_ring(move);
  const bool granted = ring.has_value();
  if (!granted) {
    ring = wires_.provision(RingUse::kReceive, before.phase, before.slots, before.slot_bytes);
  }
  if (!ring) {
    fail("no memory for a receive ring of any size");
    return;
  }
  ring->phase = granted ? move.phase : before.phase;
  ++(granted ? figures_.granted : figures_.refused);
  figures_.switches += granted ? 1 : 0;
  current_ = *ring;  // 683
  base_ = scan_;
  resize_frames(current_.slots);
  aim();
  measure_window();
  answer(granted ? Verdict::kGranted : Verdict::kRefused, current_);  // 684
}

// A second request while one is granted is answered with the same ring.
void ReceiveHalf::make_answer() {
  move_waits_ = false;
  const Move& move = cold_->move;
  cold_->answer.sequence = move.sequence;
  cold_->answer.phase = move.phase;
  if (cold_->pending.exists()) return answer(Verdict::kGranted, cold_->pending);
  // Views still hold the ring before this one.
  if (cold_->retired.exists()) return answer(Verdict::kPostponed, {});
  if (move.strict != 0 && !settings_.keep_small && room_.consumed == scan_) {
    return replace_ring(move);
  }
  auto ring = find_ring(move);
  if (!ring) {
    ++figures_.refused;
    return answer(Verdict::kRefused, {});
  }
  ++figures_.granted;
  ring->phase = move.phase;
  ring->fetch(Ring::Lines::kEnds);
  resize_frames(ring->slots + current_.slots);
  cold_->pending = *ring;
  if (move.strict != 0) switch_rings(scan_);                                // 683
  answer(Verdict::kGranted, move.strict != 0 ? current_ : cold_->pending);  // 684
}

void ReceiveHalf::on_abandon() {
  answered_ = 0;
  if (!cold().pending.exists()) return;
  ++figures_.abandoned;
  drop(cold_->pending);
}

void ReceiveHalf::switch_rings(std::uint32_t next_frame) {
  WEFT_ASSERT(!cold_->retired.exists());
  ++figures_.switches;
  cold_->retired = current_;
  current_ = cold_->pending;
  cold_->pending = {};
  base_ = next_frame;
  aim();
  measure_window();
  // Nobody writes there any more: its key and then its memory go when the last view does.
  advance_consumed();
}

void ReceiveHalf::answer(Verdict verdict, const Ring& ring) {
  cold_->answer.verdict = verdict;
  cold_->answer.address = ring.address();
  cold_->answer.key = ring.remote_key;
  cold_->answer.slots = ring.slots;
  cold_->answer.slot_bytes = ring.slot_bytes;
  const Nanoseconds pause = verdict == Verdict::kPostponed ? 1'000'000 : settings_.refusal_pause_ns;
  cold_->answer.retry_after_us = static_cast<std::uint32_t>(pause / 1000);
  answer_waiting_ = true;
}

void ReceiveHalf::post_answer() {
  if (!answer_waiting_ || !outlet_.has_room()) return;
  std::array<std::byte, kAcknowledgementBytes> bytes;
  emit(cold_->answer, AcknowledgementSlot(bytes));
  Work work = outlet_.writing(bytes, kAcknowledgementStage);
  work.remote = peer_control_ + kAcknowledgementOffset;
  work.remote_key = peer_key_;
  outlet_.post_and_wake(std::move(work));
  answered_ = cold_->answer.sequence;
  answer_waiting_ = false;
}

void ReceiveHalf::progress(std::uint32_t repeat, Nanoseconds now) {
  if (move_waits_ && cold_->move.strict != 0) {
    if (cold_->drain_deadline == 0) cold_->drain_deadline = now + kDrainTime;
    cold_->drain_overdue = cold_->drain_overdue || now >= cold_->drain_deadline;
  }
  if (answered_ != 0 && request_of(repeat) == request_of(answered_) && repeat > answered_) {
    cold_->answer.sequence = repeat;
    answer_waiting_ = true;
  }
  step();
  return_keys();
}

std::uint64_t ReceiveHalf::registered_bytes() const {
  const ColdState& rare = cold();
  std::uint64_t sum = rare.message.length;
  for (const Ring* ring : {&current_, &rare.pending, &rare.retired}) {
    if (ring->exists()) sum += std::uint64_t{ring->slots} * ring->slot_bytes;
  }
  for (const Ring& ring : rare.kept) sum += std::uint64_t{ring.slots} * ring.slot_bytes;
  for (const Pull& pull : rare.pulls) sum += pull.region.length;
  return sum;
}

}  // namespace weft::channel

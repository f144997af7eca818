#include "channel/send_half.h"

#include <algorithm>

#include "base/assert.h"
#include "base/bulk_copy.h"
#include "base/fast_paths.h"

namespace weft::channel {
namespace {

/// Walks over a vector and copies out of it.
class Gather {
 public:
  explicit Gather(std::span<const iovec> vector) : vector_(vector) {}
  void copy(std::byte* to, std::uint64_t bytes) {
    while (bytes > 0) {
      const iovec& element = vector_[index_];
      const std::uint64_t n = std::min<std::uint64_t>(element.iov_len - offset_, bytes);
      base::bulk_copy(to, static_cast<const std::byte*>(element.iov_base) + offset_, n);
      to += n, bytes -= n, offset_ += n;
      if (offset_ == element.iov_len) ++index_, offset_ = 0;
    }
  }

 private:
  std::span<const iovec> vector_;
  std::size_t index_ = 0;
  std::uint64_t offset_ = 0;
};

}  // namespace

SendHalf::SendHalf(const Settings& settings, Wires& wires, Outlet& outlet, std::byte* control,
                   std::uint32_t channel)
    : settings_(settings), wires_(wires), outlet_(outlet), control_(control), channel_(channel) {}

bool SendHalf::start() {
  const std::uint32_t phase = settings_.start_phase;
  const PhaseSize& size = settings_.phases[phase];
  local_.phase = phase;
  local_.slots = size.slots;
  local_.slot_bytes = slot_bytes_of(size.payload_bytes);
  return settings_.lean || provision_again();
}

// A lean channel has no send ring while it is quiet: only its shape.
bool SendHalf::provision_again() {
  auto ring = wires_.provision(RingUse::kSend, local_.phase, local_.slots, local_.slot_bytes);
  if (!ring) return false;
  local_ = *ring;
  frame_at_ = local_.slot(local_index_);
  return true;
}

const SendHalf::ColdState SendHalf::kNoColdState;

void SendHalf::stop() {
  for (Ring* ring : {&local_, &make_cold().fresh, &make_cold().old}) {
    if (!ring->exists()) continue;
    wires_.unregister(*ring);
    wires_.release(*ring);
  }
  for (Ring& ring : cold_->kept) {
    wires_.unregister(ring);
    wires_.release(ring);
  }
  end_loans();
  cold_.reset();
}

void SendHalf::rest() {
  if (settings_.lean && local_.exists() && !busy() && outlet_.done(frame_work_)) {
    Ring shape;
    shape.phase = local_.phase, shape.slots = local_.slots, shape.slot_bytes = local_.slot_bytes;
    wires_.unregister(local_);
    wires_.release(local_);
    local_ = shape;
    fast_most_ = 0;
  }
  if (cold_ == nullptr || busy() || cold_->fresh.exists() || !cold_->kept.empty()) return;
  if (lent_number_ == 0 && cold_->left.empty()) cold_.reset();
}

bool SendHalf::fail(std::string_view why) {
  if (error_.empty()) error_ = why;
  fast_most_ = 0;
  outlet_.fail();
  return false;
}

void SendHalf::measure_rings() {
  local_index_ = remote_index_ = 0;
  frame_at_ = local_.memory;
  remote_end_ = remote_.address + remote_.slot_bytes;
  limit_ = std::min(local_.slots, remote_.slots) - 1;
  frame_most_ = std::min(local_.slot_bytes, remote_.slot_bytes);
}

// What is not quite ordinary takes the general path.
void SendHalf::update_fast_most() {
  has_steps_ = moving() || cold().old.exists();
  const bool ordinary =
      (!has_steps_ || (!settings_.strict && !last_in_frame_)) && local_.exists() && rest_ == 0 &&
      lent_number_ == 0 && !closed_ && error_.empty() && settings_.policy != Policy::kCallerSays &&
      (phase() >= settings_.transfer.size() || settings_.transfer[phase()] == Transfer::kEager);
  fast_most_ = ordinary && base::fast_paths.on() ? threshold() : 0;
  // What fits a smaller phase says nothing against shrinking; the rest is noted by take().
  if (phase() > 0) {
    fast_most_ = std::min<std::uint64_t>(fast_most_, settings_.phases[phase() - 1].payload_bytes);
  }
}

void SendHalf::read_status() {
  note_consumed(watch32(control_ + kStatusOffset + offsetof(Status, consumed)));
  const std::uint64_t word = watch64(control_ + kStatusOffset + offsetof(Status, pulled));
  const auto pulled = static_cast<std::uint32_t>(word),
             left = static_cast<std::uint32_t>(word >> 32);
  if (pulled == peer_pulled_ && left == peer_left_) return;
  peer_left_ = left;
  if (pulled - peer_pulled_ > offers_ - peer_pulled_) {
    fail("the peer says that it has read what was never offered");
    return;
  }
  peer_pulled_ = pulled;
}

void SendHalf::note_impossible() {
  fail("the peer says that it has consumed frames that were never sent");
}

bool SendHalf::make_room(std::uint32_t record_bytes) {
  if (last_in_frame_ || !open_frame()) return false;
  if (room() >= record_bytes) return true;
  return post_frame() && open_frame() && room() >= record_bytes;
}

void SendHalf::post_open_frame(bool signaled) {
  const std::uint32_t length = seal(frame_at_, used_, plain_);
  frame_work_ = outlet_.post_and_wake({.local = frame_at_,
                                       .local_key = local_.local_key,
                                       .length = length,
                                       .remote = remote_end_ - length,
                                       .remote_key = remote_.key,
                                       .signaled = signaled});
  go_on();
  frame_open_ = urgent_ = false;
}

// While the peer has no room, small messages share a frame.
bool SendHalf::fast_gather(const iovec& element) {
  const auto length = static_cast<std::uint32_t>(element.iov_len);
  if (!open_frame() || room() < kRecordBytes + round_up_8(length)) return false;
  append_whole(element.iov_base, length);
  history_ <<= 1;
  ++figures_.messages;
  figures_.bytes += length;
  if (in_flight() >= limit()) {
    note_consumed(watch32(control_ + kStatusOffset + offsetof(Status, consumed)));
    if (in_flight() >= limit()) return true;
  }
  if (outlet_.has_room()) post_open_frame(false);
  return true;
}

std::size_t SendHalf::take_batch(std::span<const iovec> messages) {
  const auto look_for_room = [this] {
    note_consumed(watch32(control_ + kStatusOffset + offsetof(Status, consumed)));
  };
  std::size_t taken = 0;
  for (const iovec& message : messages) {
    const std::uint64_t length = message.iov_len;
    if (length - 1 >= fast_most_) break;
    const auto needed = kRecordBytes + round_up_8(static_cast<std::uint32_t>(length));
    if (frame_open_ && room() < needed) {
      if (in_flight() >= limit()) look_for_room();
      if (!post_frame()) break;
    }
    if (!frame_open_ && in_flight() > limit()) look_for_room();
    if (!open_frame()) break;
    append_whole(message.iov_base, static_cast<std::uint32_t>(length));
    history_ <<= 1;
    figures_.bytes += length;
    ++taken;
  }
  figures_.messages += taken;
  if (frame_open_ && in_flight() >= limit()) look_for_room();
  post_frame();
  return taken;
}

std::uint64_t SendHalf::take(std::span<const iovec> vector, std::uint64_t size_hint,
                             Nanoseconds now) {
  look_around();
  // While rings are changed the message goes first, and the step is done while it travels.
  const bool later = !settings_.strict && !last_in_frame_ && has_steps_;
  if (!later) step(now);
  const std::uint64_t taken = take_any(vector, size_hint, now);
  take_note_of_room();
  if (later) step(now);
  update_fast_most();
  return taken;
}

std::uint64_t SendHalf::take_any(std::span<const iovec> vector, std::uint64_t size_hint,
                                 Nanoseconds now) {
  while (!vector.empty() && vector[0].iov_len == 0) vector = vector.subspan(1);
  if (!error_.empty() || closed_ || vector.empty()) return 0;
  const std::uint64_t total = bytes_in(vector);
  if (state_ == State::kLeaving && (settings_.strict || last_in_frame_)) return 0;
  if (state_ == State::kAsked && settings_.strict) return 0;  // 334, 348, 350
  if (lent_number_ != 0) {
    if (is_lent(vector[0])) return take_lent(vector, total);
    if (rest_ > 0) return 0;
    if (loan_done(lent_number_)) lent_number_ = 0;  // read, but the caller did not come to hear it
  }
  Scan scan = scan_vector(vector, threshold(), settings_.policy, size_hint);  // 338
  const auto& last = settings_.phases.back();
  const bool rendezvous =
      phase() < settings_.transfer.size() && settings_.transfer[phase()] == Transfer::kRendezvous;
  if (rest_ == 0) history_ = history_ << 1 | (scan.use_large ? 1 : 0);
  if (scan.use_large) {
    last_large_ns_ = now;
    if (scan.wanted_bytes > last.payload_bytes) return take_lent(vector, total);
    if (wants_move(scan.wanted_bytes, now)) return 0;  // 344
    scan.bytes = total;                                // no larger buffers now: in pieces
  }
  if (rendezvous) return take_lent(vector, total);
  if (local_.phase > 0 && scan.bytes > settings_.phases[local_.phase - 1].payload_bytes) {
    last_large_ns_ = now;
  }
  const std::uint64_t taken = take_pieces(vector, scan.bytes, total);  // 340, 356
  post_frame();
  return taken;
}

std::uint64_t SendHalf::take_pieces(std::span<const iovec> vector, std::uint64_t bytes,
                                    std::uint64_t total) {
  Gather gather(vector);
  const auto whole =
      kRecordBytes +
      round_up_8(static_cast<std::uint32_t>(std::min<std::uint64_t>(total, frame_bytes_most())));
  if (rest_ == 0 && bytes == total &&
      total + kRecordBytes + kHeadBytes + kTailBytes <= frame_bytes_most()) {
    if (!make_room(whole)) return 0;
    gather.copy(append(Kind::kWhole, static_cast<std::uint32_t>(total)), total);
    ++figures_.messages;
    figures_.bytes += total;
    return total;
  }
  std::uint64_t taken = 0;
  while (taken < bytes) {
    const bool begin = rest_ == 0;
    const std::uint32_t extra = begin ? 8 : 0;
    // A piece of a few bytes at the end of a frame would cost more than it brings.
    if (!make_room(kRecordBytes + extra + 64)) {
      if (!make_room(kRecordBytes + extra + 8)) break;
    }
    const auto n = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(bytes - taken, (room() - kRecordBytes - extra) & ~7u));
    std::byte* at = append(begin ? Kind::kBegin : Kind::kMore, n + extra);
    if (begin) {
      store(at, total);
      rest_ = total;
      ++figures_.messages;
    }
    gather.copy(at + extra, n);
    taken += n;
    rest_ -= n;
    ++figures_.pieces;
  }
  figures_.bytes += taken;
  return taken;
}

bool SendHalf::close() {
  if (closed_) return true;
  if (state_ == State::kLeaving || !make_room(kRecordBytes)) return false;
  append(Kind::kClose, 0);
  closed_ = true;
  fast_most_ = 0;
  post_frame();
  return true;
}

void SendHalf::progress(Nanoseconds now) {
  look_around();
  step(now);
  update_fast_most();
}

void SendHalf::look_around() {
  read_status();
  if (!cold().loans.empty()) settle_loans();
  if (frame_open_) post_frame(last_in_frame_);
}

void SendHalf::step(Nanoseconds now) {
  // Flowing, one step at a time: each takes longer than a small message, which may be next.
  const State before = state_;
  if (state_ == State::kAsked) check_answer(now);
  if (state_ == State::kLeaving && (before == State::kLeaving || settings_.strict)) leave(now);
  if (cold().old.exists()) retire_old();
  if (idle_shrink_due(now)) ask(local_.phase - 1, now);
}

std::uint64_t SendHalf::registered_bytes() const {
  std::uint64_t sum = 0;
  for (const Ring* ring : {&local_, &cold().fresh, &cold().old}) {
    if (ring->exists()) sum += std::uint64_t{ring->slots} * ring->slot_bytes;
  }
  for (const Ring& ring : cold().kept) sum += std::uint64_t{ring.slots} * ring.slot_bytes;
  return sum;
}

}  // namespace weft::channel

// The phases of a sending direction: when to ask, what to make of the answer, and figure 4.
#include <algorithm>
#include <bit>
#include <utility>

#include "channel/send_half.h"

namespace weft::channel {
namespace {

constexpr std::uint32_t kSlotBytesMost = slot_bytes_of(200'000);
/// Slots of a new ring that are written to before they are used.
constexpr std::uint32_t kIntroducedMost = 8;
/// A receiver in need is heard this much sooner than idle time would have it.
constexpr Nanoseconds kWishFactor = 100;

}  // namespace

AcknowledgementSlot SendHalf::answer_slot() const {
  return AcknowledgementSlot(control_ + kAcknowledgementOffset, kAcknowledgementBytes);
}

std::uint64_t SendHalf::threshold() const {
  const std::uint32_t size = settings_.phases[local_.phase].payload_bytes;
  if (local_.phase == 0 && settings_.threshold_bytes != 0) return settings_.threshold_bytes;
  return std::uint64_t{size} * settings_.threshold_percent / 100;
}

// True: nothing goes now. False: larger buffers cannot be had, the vector goes in pieces.
bool SendHalf::wants_move(std::uint64_t wanted_bytes, Nanoseconds now) {
  if (state_ != State::kSteady || cold().old.exists()) return true;  // not repeated while pending
  if (local_.phase + 1 >= settings_.phases.size() || now < no_growth_until_) return false;
  if (std::popcount(history_) < static_cast<int>(settings_.learn_after)) return false;
  std::uint32_t phase = local_.phase + 1;
  while (phase + 1 < settings_.phases.size() &&
         settings_.phases[phase].payload_bytes < wanted_bytes) {
    ++phase;
  }
  return ask(phase, now);
}

ProvisionOrder SendHalf::order() const {
  return settings_.order.value_or(settings_.strict ? ProvisionOrder::kAfterAcknowledgement
                                                   : ProvisionOrder::kBeforeAcknowledgement);
}

// Block 344. False: this end has no memory for it.
bool SendHalf::ask(std::uint32_t phase, Nanoseconds now) {
  fast_most_ = 0;
  target_ = phase;
  if (order() == ProvisionOrder::kBeforeControl && !provision_next()) {
    no_growth_until_ = now + settings_.refusal_pause_ns;
    return false;
  }
  if (!make_room(kRecordBytes + sizeof(Move))) return true;
  clear_flags(answer_slot());
  const PhaseSize& size = settings_.phases[phase];
  sequence_ = first_of_next_request(sequence_);
  const Move move{channel_,   phase,     slot_bytes_of(size.payload_bytes),
                  size.slots, sequence_, settings_.strict ? 1u : 0u};
  store(append(Kind::kMove, sizeof move), move);
  state_ = State::kAsked;
  tries_ = 0;
  torn_ = false;
  last_in_frame_ = settings_.strict;
  answer_deadline_ = now + settings_.acknowledgement_timeout_ns;
  ++figures_.controls;
  post_frame(settings_.strict);
  if (order() == ProvisionOrder::kBeforeAcknowledgement) provision_next();
  return true;
}

// Block 348. A torn answer is waited for; one that makes no sense is asked for again.
void SendHalf::check_answer(Nanoseconds now) {
  Acknowledgement answer;
  switch (look(answer_slot(), sequence_, answer)) {
    case Found::kAnswer:
      if (acceptable(answer)) return on_answer(answer, now);
      [[fallthrough]];
    case Found::kCorrupt:
      ++figures_.corrupt;
      clear_flags(answer_slot());  // seen once
      if (tries_ < settings_.control_repeats || now >= answer_deadline_) repeat(now);
      return;
    case Found::kTorn:  // the rest of it has its time from the first sight of the head flag
      if (!std::exchange(torn_, true)) {
        answer_deadline_ = now + settings_.acknowledgement_timeout_ns;
        return;
      }
      [[fallthrough]];
    case Found::kNothing:
    case Found::kStale:
      if (now >= answer_deadline_) repeat(now);
  }
}

bool SendHalf::acceptable(const Acknowledgement& answer) const {
  if (answer.phase != target_) return false;
  const bool no_ring = answer.address == 0;
  if (answer.verdict == Verdict::kPostponed) return true;
  if (answer.verdict == Verdict::kRefused && (no_ring || !settings_.strict)) return true;
  if (answer.verdict != Verdict::kGranted && answer.verdict != Verdict::kRefused) return false;
  return answer.slots >= kSlotsLeast && answer.slots <= kSlotsMost && answer.slot_bytes % 8 == 0 &&
         answer.slot_bytes >= kSlotOverhead + 64 && answer.slot_bytes <= kSlotBytesMost &&
         answer.address != 0 && answer.address % 8 == 0 &&
         answer.address + std::uint64_t{answer.slots} * answer.slot_bytes > answer.address;
}

void SendHalf::on_answer(const Acknowledgement& answer, Nanoseconds now) {
  if (answer.verdict == Verdict::kGranted) {
    make_cold().granted = {answer.address, answer.key, answer.slots, answer.slot_bytes};
    state_ = State::kLeaving;
    return;
  }
  ++(answer.verdict == Verdict::kRefused ? figures_.refusals : figures_.postponements);
  const Nanoseconds asked = Nanoseconds{answer.retry_after_us} * 1000;
  no_growth_until_ = now + std::clamp<Nanoseconds>(asked, 1'000'000, 10'000'000'000);
  drop_fresh();
  state_ = State::kSteady;
  last_in_frame_ = false;
  if (answer.verdict != Verdict::kRefused || !settings_.strict || answer.address == 0) return;
  // The peer had freed its small ring before it found no memory, and has made another.
  remote_ = {answer.address, answer.key, answer.slots, answer.slot_bytes};
  base_ = next_;
  measure_rings();
}

// The repetition goes by the status words, which outlive every ring: the ring that carried the
// control message may be gone by now. The receiver answers anew, it does not provision anew.
void SendHalf::repeat(Nanoseconds now) {
  // A strict sender goes on asking: the receiver may have left the small ring, and may be slow.
  const std::uint32_t most = settings_.strict ? kRepeatsMost : settings_.control_repeats;
  if (tries_ >= most) return give_up(now, settings_.refusal_pause_ns);
  ++tries_;
  clear_flags(answer_slot());
  torn_ = false;
  ++sequence_;
  ++figures_.repeats;
  status_wanted_ = true;
  answer_deadline_ = now + settings_.acknowledgement_timeout_ns;
}

void SendHalf::give_up(Nanoseconds now, Nanoseconds pause_ns) {
  if (settings_.strict) {  // there is no way back
    fail("the peer never answered a control message in a way that could be read");
    return;
  }
  if (!make_room(kRecordBytes + sizeof(Move))) return;  // tried again with the next progress
  store(append(Kind::kAbandon, sizeof(Move)), Move{.channel = channel_, .sequence = sequence_});
  post_frame();
  drop_fresh();
  ++figures_.abandoned;
  state_ = State::kSteady;
  no_growth_until_ = now + pause_ns;
}

bool SendHalf::provision_next() {
  Ring& fresh = make_cold().fresh;
  if (fresh.exists() && fresh.phase == target_) return true;
  drop_fresh();  // made for a request that never went out
  auto& kept = cold_->kept;
  for (auto ring = kept.begin(); ring != kept.end(); ++ring) {
    if (ring->phase != target_) continue;
    fresh = *ring;
    kept.erase(ring);
    return true;
  }
  const PhaseSize& size = settings_.phases[target_];
  auto ring = wires_.provision(RingUse::kSend, target_, size.slots,  // 457, 458
                               slot_bytes_of(size.payload_bytes));
  if (!ring) return false;
  fresh = *ring;
  fresh.fetch(Ring::Lines::kBegins);
  return true;
}

void SendHalf::drop_fresh() {
  if (!cold().fresh.exists()) return;
  wires_.unregister(cold_->fresh);
  wires_.release(cold_->fresh);
  cold_->fresh = {};
}

// Block 354. Flowing: the new ring is made, the old one gets its last frame, and both live until
// the old one's work is complete. Strict: in the order of figure 4.
void SendHalf::leave(Nanoseconds now) {
  if (!settings_.strict) {
    if (!last_in_frame_) {
      const bool made = cold().fresh.exists() && cold().fresh.phase == target_;
      if (!made) {
        if (!provision_next()) give_up(now, settings_.refusal_pause_ns);
        return;
      }
      if (!make_room(kRecordBytes)) return;
      append(Kind::kLast, 0);
      last_in_frame_ = true;
      fast_most_ = 0;
      post_frame(true);
      introduce();  // while the peer changes rings
    }
    if (frame_open_) return;
    make_cold().old = local_;
    cold_->old_last_work = frame_work_;
    local_ = std::exchange(cold_->fresh, {});
    return switch_rings();
  }
  if (frame_open_ || !outlet_.done(frame_work_)) return;
  const std::uint32_t phase = local_.phase;
  if (settings_.keep_small) {
    make_cold().kept.push_back(local_);
  } else {
    wires_.unregister(local_);  // 455
    wires_.release(local_);     // 456
  }
  local_ = {};
  if (!provision_next()) {  // the small one again, with which the receiver's large ring works too
    target_ = phase;
    no_growth_until_ = now + settings_.refusal_pause_ns;
    if (!provision_next()) {
      fail("no memory for a send ring of any size");
      return;
    }
  }
  local_ = std::exchange(cold_->fresh, {});
  switch_rings();
}

// A first write by a new key takes longer than others, since whoever does it has to find out about
// the key, and so does one to memory that was not used for a while. So some go ahead that mean
// nothing, in a step of their own: each to where a small frame will lie, but not to its tail, which
// alone is looked at.
void SendHalf::introduce() {
  const Ring& fresh = cold_->fresh;
  const RemoteRing& granted = cold_->granted;
  store(fresh.memory, std::uint64_t{0});
  for (std::uint32_t i = 1; i <= std::min(granted.slots, kIntroducedMost); ++i) {
    if (!outlet_.has_room()) return;
    outlet_.post({.local = fresh.memory,
                  .local_key = fresh.local_key,
                  .length = sizeof(std::uint64_t),
                  .remote = granted.address + std::uint64_t{i} * granted.slot_bytes - kLineBytes,
                  .remote_key = granted.key});
  }
}

// Block 459.
void SendHalf::switch_rings() {
  const RemoteRing& granted = cold().granted;
  ++(granted.slot_bytes > remote_.slot_bytes ? figures_.grows : figures_.shrinks);
  remote_ = granted;
  base_ = next_;
  measure_rings();
  last_in_frame_ = false;
  state_ = State::kSteady;
}

void SendHalf::retire_old() {
  if (!outlet_.done(cold_->old_last_work)) return;
  if (settings_.keep_small && cold_->old.phase < local_.phase) {
    cold_->kept.push_back(cold_->old);
  } else {
    wires_.discard(cold_->old);
  }
  cold_->old = {};
}

bool SendHalf::idle_shrink_due(Nanoseconds now) const {
  if (state_ != State::kSteady || cold().old.exists() || rest_ > 0 || closed_ || !error_.empty() ||
      local_.phase <= settings_.start_phase || settings_.shrink_after_ns == 0 ||
      now < no_growth_until_) {
    return false;
  }
  const bool wish =
      (watch32(control_ + kStatusOffset + offsetof(Status, wishes)) & kWishSmaller) != 0;
  return now >= last_large_ns_ + settings_.shrink_after_ns / (wish ? kWishFactor : 1);
}

Nanoseconds SendHalf::next_deadline() const {
  if (state_ == State::kAsked) return answer_deadline_;
  if (local_.phase > settings_.start_phase && settings_.shrink_after_ns != 0) {
    return last_large_ns_ + settings_.shrink_after_ns;
  }
  return kNever;
}

}  // namespace weft::channel

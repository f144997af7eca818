// The receiving direction, towards the application: messages in order, whole, each once.
#include <algorithm>

#include "base/bulk_copy.h"
#include "channel/receive_half.h"

namespace weft::channel {
namespace {

/// One read moves at most this much.
constexpr std::uint64_t kReadMost = std::uint64_t{1} << 30;

}  // namespace

bool ReceiveHalf::on_offer(const Offer& offer) {
  if (offer.number != offers_ + 1 || offer.length == 0 || offer.length > kReadMost ||
      offer.length > settings_.max_message_bytes || offer.total > settings_.max_message_bytes ||
      (offer.total != 0 && offer.total < offer.length)) {
    return fail("an offer is out of turn, empty, or larger than a message may be");
  }
  if (make_cold().pulls.size() >= kOffersMost)
    return fail("more offers at one time than the rules allow");
  ++offers_;
  cold_->pulls.push_back({.offer = offer, .region = {}});
  fresh_offers_ = true;
  return true;
}

// Whole messages are read ahead, in order; a piece is read when its message has come so far.
void ReceiveHalf::start_pulls() {
  if (cold_ == nullptr) return;
  fresh_offers_ = false;
  for (Pull& pull : cold_->pulls) pull.fresh = false;
  for (Pull& pull : cold_->pulls) {
    if (pull.started || heed_recall(pull)) continue;
    if (pull.offer.total != pull.offer.length || !outlet_.has_room()) return;
    if (!pull.region.exists()) {
      auto region = wires_.borrow(pull.offer.length);
      if (!region) return;  // later: the message waits at the sender, where it has memory
      pull.region = *region;
    }
    start(pull, pull.region.memory, pull.region.local_key);
  }
}

void ReceiveHalf::start(Pull& pull, std::byte* to, LocalKey key) {
  pull.started = true;
  ++reading_;
  pull.work = outlet_.post({.op = Work::Op::kRead,
                            .local = to,
                            .local_key = key,
                            .length = static_cast<std::uint32_t>(pull.offer.length),
                            .remote = pull.offer.address,
                            .remote_key = RemoteKey(pull.offer.key),
                            .signaled = true});
  if (pull.offer.returns == 0) return;
  // The last message for a window, which closes it: the queue pair sends it when the read has
  // ended.
  cold_->returns.push_back(pull.offer.key);
  return_keys();
}

// The sender wants its memory back, and nobody has begun to read it: then nobody will.
bool ReceiveHalf::heed_recall(Pull& pull) {
  if (pull.left) return true;
  const std::uint32_t recalled = watch32(control_ + kStatusOffset + offsetof(Status, recalled));
  if (!has_offer(recalled, pull.offer.number)) return false;
  pull.left = true;
  if (pull.region.exists()) wires_.give_back(pull.region);
  const std::uint32_t first = cold_->pulls.front().offer.number;
  std::uint32_t set = offer_set(first);
  for (std::uint32_t number = first; number != first + kOffersMost; ++number) {
    if (has_offer(left_, number)) set = with_offer(set, number);
  }
  left_ = with_offer(set, pull.offer.number);
  news_ = true;
  note_ended(pull);
  return true;
}

void ReceiveHalf::note_ended(Pull& pull) {
  pull.done = true;
  for (const Pull& each : cold_->pulls) {
    if (each.done && each.offer.number == pulled_ + 1) ++pulled_;
  }
}

void ReceiveHalf::return_keys() {
  if (cold_ == nullptr) return;
  auto& keys = cold_->returns;
  while (!keys.empty() && outlet_.has_room()) {
    outlet_.post({.op = Work::Op::kReturn, .remote_key = RemoteKey(keys.front())});
    keys.erase(keys.begin());
  }
}

bool ReceiveHalf::on_read_done(std::uint32_t number) {
  if (cold_ == nullptr) return false;
  for (Pull& pull : cold_->pulls) {
    if (!pull.started || pull.done || pull.work != number) continue;
    --reading_;
    note_ended(pull);
    ++figures_.pulls;
    if (pull.offer.returns == 0) news_ = true;
    return true;
  }
  return false;
}

void ReceiveHalf::advance(std::uint32_t record_length) {
  offset_ += kRecordBytes + round_up_8(record_length);
}

bool ReceiveHalf::begin_message(std::uint64_t total) {
  if (make_cold().message_bytes != 0) return fail("a message begins inside another");
  if (total == 0 || total > settings_.max_message_bytes) {
    return fail("a message is larger than a message may be");
  }
  auto region = wires_.borrow(total);
  if (!region) return false;
  cold_->message = *region;
  cold_->message_bytes = total;
  cold_->filled = 0;
  return true;
}

bool ReceiveHalf::deliver_piece(const std::byte* bytes, std::uint64_t n) {
  if (cold().message_bytes == 0 || n > cold_->message_bytes - cold_->filled) {
    return fail("a piece belongs to no message, or is longer than the rest of it");
  }
  base::bulk_copy(cold_->message.memory + cold_->filled, bytes, n);
  cold_->filled += n;
  ++figures_.pieces;
  return true;
}

std::optional<Incoming> ReceiveHalf::finish_message() {
  Incoming out{cold_->message.memory, cold_->message_bytes, 0, cold_->message};
  cold_->message = {};
  cold_->message_bytes = 0;
  return out;
}

ReceiveHalf::Step ReceiveHalf::deliver_offer(std::optional<Incoming>& out) {
  if (cold().pulls.empty()) return fail("an offer that was not announced"), Step::kFailed;
  Pull& pull = cold_->pulls.front();
  if (pull.left || (!pull.started && heed_recall(pull))) {
    cold_->pulls.erase(cold_->pulls.begin());
    return Step::kNext;
  }
  if (pull.offer.total == pull.offer.length) {
    if (!pull.done) return Step::kWait;
    if (cold_->message_bytes != 0) return fail("a message begins inside another"), Step::kFailed;
    out = Incoming{pull.region.memory, pull.offer.length, 0, pull.region};
    cold_->pulls.erase(cold_->pulls.begin());
    return Step::kNext;
  }
  if (!pull.started) {
    const bool begins = pull.offer.total != 0;
    if (!begins &&
        (cold_->message_bytes == 0 || pull.offer.length > cold_->message_bytes - cold_->filled)) {
      return fail("a piece belongs to no message, or is longer than the rest of it"), Step::kFailed;
    }
    if (pull.fresh || !outlet_.has_room()) return Step::kWait;
    if (begins && !begin_message(pull.offer.total)) return Step::kWait;
    start(pull, cold_->message.memory + cold_->filled, cold_->message.local_key);
  }
  if (!pull.done) return Step::kWait;
  cold_->filled += pull.offer.length;
  cold_->pulls.erase(cold_->pulls.begin());
  if (cold_->filled == cold_->message_bytes) out = finish_message();
  return Step::kNext;
}

// Goes on to the next record that is for the application; frames that end on the way are done.
void ReceiveHalf::skip_controls() {
  while (deliver_ != scan_) {
    Frame& frame = frame_at(deliver_);
    if (offset_ + kRecordBytes > frame.length - kTailBytes) {
      --frame.live;
      ++deliver_;
      offset_ = kHeadBytes;
      continue;
    }
    const auto head = load<RecordHead>(frame.begin + offset_);
    const bool control = head.kind == Kind::kMove || head.kind == Kind::kLast ||
                         head.kind == Kind::kAbandon || head.kind == Kind::kClose;
    if (!control) break;
    advance(std::min(head.length, frame.length));
  }
  advance_consumed();
}

std::optional<Incoming> ReceiveHalf::deliver() {
  std::optional<Incoming> out;
  while (error_.empty() && deliver_ != scan_ && !out) {
    Frame& frame = frame_at(deliver_);
    const std::uint32_t end = frame.length - kTailBytes;
    const std::byte* payload = frame.begin + offset_ + kRecordBytes;
    const auto head = load<RecordHead>(frame.begin + offset_);
    if (head.length > end - offset_ - kRecordBytes) {  // it was checked, but the peer can write
      fail("a record changed after it arrived");
      break;
    }
    if (head.kind == Kind::kWhole) {
      out = Incoming{payload, head.length, deliver_, {}};
      ++frame.live;
    } else if (head.kind == Kind::kBegin || head.kind == Kind::kMore) {
      const std::uint32_t extra = head.kind == Kind::kBegin ? 8 : 0;
      if (head.length < extra) {
        fail("a record changed after it arrived");
        break;
      }
      if (extra != 0 && !begin_message(load<std::uint64_t>(payload))) break;
      if (!deliver_piece(payload + extra, head.length - extra)) break;
      if (cold_->filled == cold_->message_bytes) out = finish_message();
    } else if (head.kind == Kind::kOffer) {
      if (deliver_offer(out) != Step::kNext) break;
    } else {  // in a frame that was said to hold whole messages
      fail("a record is not of the kind that its frame promises");
      break;
    }
    advance(head.length);
    skip_controls();
  }
  if (out) {
    ++figures_.messages;
    figures_.bytes += out->length;
  }
  return out;
}

void ReceiveHalf::release_region(Incoming& message) {
  wires_.give_back(message.region);
  message.region = {};
}

void ReceiveHalf::advance_consumed() {
  while (room_.consumed != deliver_ && frame_at(room_.consumed).live == 0) ++room_.consumed;
  if (!cold().retired.exists() || static_cast<std::int32_t>(room_.consumed - base_) < 0) return;
  // A peer that invents phases does not so fill this end's memory with rings.
  const bool known = cold_->kept.size() < settings_.phases.size();
  if (settings_.keep_small && known && cold_->retired.phase <= current_.phase) {
    cold_->kept.push_back(cold_->retired);
    cold_->retired = {};
  } else if (settings_.strict) {
    drop(cold_->retired);
  } else {
    wires_.discard(cold_->retired);
  }
}

}  // namespace weft::channel

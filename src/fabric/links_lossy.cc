// Of Links: what errors on a link need. Whatever comes damaged is seen by the receiver. It says so
// (kNak), once in a round trip, until the sender has answered (kResume) and nothing came damaged
// meanwhile. The sender sends again from the first flit that is missing, and its credits, which are
// running totals.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/assert.h"
#include "fabric/links.h"

namespace weft::fabric {

Links::Lossy& Links::make_lossy(PortIndex port, double rate) {
  // Both directions: an error of one is answered on the other.
  for (const PortIndex index : {port, shape_.ports[port].peer}) {
    if (ports_[index].lossy != kNone) continue;
    const PortShape& port_shape = shape_.ports[index];
    const PortShape& peer = shape_.ports[port_shape.peer];
    const std::uint64_t round_trip = port_shape.link.latency + peer.link.latency +
                                     2ull * (port_shape.link.ticks_per_flit + 64u) +
                                     settings_.ack_delay;
    auto lossy = std::make_unique<Lossy>();
    lossy->unacknowledged.resize(
        std::bit_ceil(std::clamp<std::uint64_t>(2 * round_trip, 64, 16'384)));
    ports_[index].lossy = static_cast<std::uint32_t>(lossy_.size());
    lossy_.push_back(std::move(lossy));
  }
  Lossy& lossy = *lossy_[ports_[port].lossy];
  lossy.rate = rate;
  if (rate > 0) draw_damage(lossy);
  return lossy;
}

/// How many flits pass before one is damaged: geometric.
void Links::draw_damage(Lossy& lossy) {
  if (lossy.rate <= 0) {
    lossy.until_damage = kNever;
  } else if (lossy.rate >= 1) {
    lossy.until_damage = 1;
  } else {
    const double uniform = (static_cast<double>(random_.next() >> 11) + 1) * 0x1p-53;
    lossy.until_damage =
        1 + static_cast<std::uint64_t>(std::log(uniform) / std::log1p(-lossy.rate));
  }
}

/// Flips bits of the flit as it is on the link, where its check has to find them.
void Links::maybe_damage(PortIndex index, Lossy& lossy, Flit& flit) {
  if (lossy.until_damage == kNever || --lossy.until_damage > 0) return;
  draw_damage(lossy);
  std::vector<std::byte> synthetic(flit.is(kData) ? kFlitBytes : 0);
  std::span<const std::byte> data = synthetic;
  if (flit.is(kData)) {
    const std::span<const std::byte> all = frames_[flit.frame].bytes;
    const std::size_t from = std::min(all.size(), flit.index * kFlitBytes);
    if (!all.empty()) data = all.subspan(from, std::min(kFlitBytes, all.size() - from));
  }
  std::vector<std::byte> bytes = emit_flit(flit, data);
  WEFT_ASSERT(parse_flit(bytes).has_value());
  const std::uint64_t flips = 1 + random_.below(3);
  std::uint64_t bit = random_.below(bytes.size() * 8);
  for (std::uint64_t i = 0; i < flips; ++i) {
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    bit = (bit + 1 + random_.below(24)) % (bytes.size() * 8);
  }
  flit.damaged = !parse_flit(bytes).has_value();
  WEFT_ASSERT(index == shape_.ports[flit.to].peer);
}

void Links::notice_damage(PortIndex index, Lossy& lossy) {
  ++stats_.damaged;
  if (lossy.nak_open) {
    lossy.damaged_since = true;
  } else {
    send_nak(index, lossy);
  }
}

/// Asks for everything from the expected flit on; and again later, as this may come damaged too.
void Links::send_nak(PortIndex index, Lossy& lossy) {
  ++lossy.nak;
  lossy.owes_nak = lossy.nak_open = ports_[index].owes_control = true;
  lossy.damaged_since = false;
  lossy.nak_again_at = now_ + round_trip(index);
  if (!lossy.nak_timer) {
    lossy.nak_timer = true;
    wakes_[lossy.nak_again_at & calendar_mask_].push_back(index | kNakBit);
    ++scheduled_;
  }
  wake(index);
}

void Links::on_nak_timer(PortIndex index) {
  Lossy& lossy = *lossy_[ports_[index].lossy];
  lossy.nak_timer = false;
  if (!lossy.nak_open) return;
  if (now_ >= lossy.nak_again_at) return send_nak(index, lossy);
  lossy.nak_timer = true;
  wakes_[lossy.nak_again_at & calendar_mask_].push_back(index | kNakBit);
  ++scheduled_;
}

/// Until an answer must have come: each side may have to finish a flit first.
Tick Links::round_trip(PortIndex index) const {
  const Port& port = ports_[index];
  const Port& peer = ports_[port.peer];
  return Tick{port.flight} + peer.flight + 2u * (port.ticks_per_flit + peer.ticks_per_flit);
}

void Links::attach_answers(Lossy& lossy, Flit& flit) {
  if (lossy.owes_nak) {
    flit.kind |= kNak;
    flit.nak = lossy.nak;
    lossy.owes_nak = false;
  }
  if (lossy.owes_resume) {
    flit.kind |= kResume;
    flit.resume = lossy.resume;
    lossy.owes_resume = false;
  }
}

bool Links::window_open(const Port& port) const {
  const auto under_way = static_cast<std::uint16_t>(port.next_sequence - port.acknowledged);
  return under_way < lossy_[port.lossy]->unacknowledged.size();
}

void Links::take_acknowledgement(PortIndex index, Lossy& lossy, const Flit& flit) {
  Port& port = ports_[index];
  const auto under_way = static_cast<std::uint16_t>(port.next_sequence - port.acknowledged);
  const auto more = static_cast<std::uint16_t>(flit.acknowledged - port.acknowledged);
  if (more <= under_way) {
    port.acknowledged = flit.acknowledged;
    const auto done = static_cast<std::uint16_t>(lossy.again_from - port.acknowledged);
    if (lossy.sending_again && done > 0x8000) lossy.again_from = port.acknowledged;
    if (more > 0 && port.ready != 0) wake(index);
  }
  if (flit.is(kResume) && flit.resume == lossy.nak && lossy.nak_open) {
    lossy.nak_open = false;
    if (lossy.damaged_since) send_nak(index, lossy);
  }
  if (!flit.is(kNak)) return;
  lossy.resume = flit.nak;
  lossy.again_from = port.acknowledged;
  lossy.sending_again = port.acknowledged != port.next_sequence;
  lossy.owes_resume = true;
  for (std::uint32_t lane = 0; lane < settings_.lanes; ++lane) {
    if (in_[index * lane_stride_ + lane].freed != 0) {
      port.owes_credit = static_cast<std::uint16_t>(port.owes_credit | 1u << lane);
    }
  }
  port.owes_control = true;
  wake(index);
}

bool Links::accept_sequence(Port& port, const Flit& flit) {
  if (flit.sequence == port.expected) {
    ++port.expected;
    return true;
  }
  ++stats_.out_of_order;
  return false;
}

/// The next flit that is sent again. False: all have been.
bool Links::take_again(Port& port, Lossy& lossy, Flit& flit) {
  if (lossy.again_from == port.next_sequence) {
    lossy.sending_again = false;
    return false;
  }
  const Sent& sent = lossy.unacknowledged[lossy.again_from & (lossy.unacknowledged.size() - 1)];
  flit.frame = sent.frame;
  flit.index = sent.index;
  flit.lane = sent.lane;
  flit.kind |= sent.kind & (kData | kHead | kTail);
  flit.sequence = lossy.again_from++;
  lossy.sending_again = lossy.again_from != port.next_sequence;
  ++stats_.sent_again;
  return true;
}

}  // namespace weft::fabric

#include "fabric/links.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"

namespace weft::fabric {

Links::Links(const Shape& shape, const LinkSettings& settings, Forwarding& forwarding,
             FramePool& frames)
    : shape_(shape),
      settings_(settings),
      forwarding_(forwarding),
      frames_(frames),
      random_(settings.seed),
      lane_shift_(static_cast<std::uint32_t>(std::bit_width(settings.lanes - 1u))),
      lane_stride_(1u << lane_shift_),
      ports_(shape.ports.size()),
      in_(shape.ports.size() * lane_stride_),
      out_(shape.ports.size() * lane_stride_),
      segment_base_(shape.ports.size()),
      ring_size_(shape.ports.size(), 1),
      sources_(in_.size()) {
  WEFT_ASSERT(settings.lanes >= 1 && settings.lanes <= kMaxLanes);
  std::uint64_t longest = settings.ack_delay;
  std::size_t segment_count = 0;
  bool lossy_anywhere = false;
  for (PortIndex i = 0; i < ports_.size(); ++i) {
    const PortShape& port_shape = shape.ports[i];
    Port& port = ports_[i];
    port.endpoint = shape.kind_of(i) == NodeKind::kEndpoint;
    const bool linked = port_shape.peer != kNone;
    const std::uint16_t depth = linked ? shape.ports[port_shape.peer].link.depth : 1;
    ring_size_[i] = port.endpoint || !linked ? 1 : std::bit_ceil(depth);
    segment_base_[i] = segment_count;
    segment_count += std::size_t{ring_size_[i]} * lane_stride_;
    if (!linked) continue;
    const LinkProfile& link = port_shape.link;
    WEFT_ASSERT(link.latency > 0 && link.ticks_per_flit > 0 && link.depth > 0);
    port.peer = port_shape.peer;
    port.ticks_per_flit = link.ticks_per_flit;
    port.flight =
        link.latency + link.ticks_per_flit - 1 + shape.nodes[shape.ports[port.peer].node].pipeline;
    longest = std::max<std::uint64_t>(longest, port.flight);
    for (std::uint32_t lane = 0; lane < lane_stride_; ++lane) {
      out_[i * lane_stride_ + lane].capacity = link.depth;
    }
    if (link.error_rate <= 0) continue;
    make_lossy(i, link.error_rate);
    lossy_anywhere = true;
  }
  segments_.resize(segment_count);
  for (PortIndex i = 0; lossy_anywhere && i < ports_.size(); ++i) {
    if (ports_[i].lossy != kNone) longest = std::max(longest, round_trip(i));
  }
  const std::size_t buckets = std::bit_ceil(longest + 2);
  calendar_mask_ = buckets - 1;
  flights_.resize(buckets);
  wakes_.resize(buckets);
}

void Links::set_arbitration(PortIndex port, const ArbitrationTable* table) {
  ports_[port].table = table;
}

void Links::wake_at(PortIndex port, Tick when, bool timer) {
  wakes_[when & calendar_mask_].push_back(timer ? port | kTimerBit : port);
  ++scheduled_;
}

void Links::wake(PortIndex port) {
  Port& p = ports_[port];
  if (p.awake) return;
  p.awake = true;
  wake_at(port, std::max(now_, p.free_at));
}

void Links::arm_timer(PortIndex index) {
  Port& port = ports_[index];
  if (port.timer || port.owes_control) return;
  port.timer = true;
  wake_at(index, now_ + std::max<std::uint32_t>(settings_.ack_delay, 1), true);
}

void Links::owe_credit(std::uint32_t in, std::uint32_t flits) {
  InLane& lane = in_[in];
  lane.freed += flits;
  const PortIndex index = port_of(in);
  Port& port = ports_[index];
  port.owes_credit = static_cast<std::uint16_t>(port.owes_credit | 1u << lane_of(in));
  if (lane.freed - lane.told < settings_.credit_batch) return arm_timer(index);
  port.owes_control = true;
  wake(index);
}

void Links::attach(PortIndex index, Flit& flit) {
  Port& port = ports_[index];
  flit.acknowledged = port.expected;
  port.unacknowledged = 0;
  if (port.owes_credit != 0) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(port.owes_credit));
    InLane& in = in_[index * lane_stride_ + lane];
    port.owes_credit = static_cast<std::uint16_t>(port.owes_credit & (port.owes_credit - 1u));
    in.told = in.freed;
    flit.credit_lane = static_cast<std::uint8_t>(lane);
    flit.credit = in.freed;
    flit.kind |= kCredit;
  }
  port.owes_control = port.owes_credit != 0;
}

void Links::transmit(PortIndex index, Flit& flit) {
  Port& port = ports_[index];
  attach(index, flit);
  flit.to = port.peer;
  if (port.lossy != kNone) maybe_damage(index, *lossy_[port.lossy], flit);
  if (tap_) tap_(now_, index, flit);
  flights_[(now_ + port.flight) & calendar_mask_].push_back(flit);
  ++scheduled_;
}

/// Of the lanes that are ready, those whose input port has not fed another output in this tick, and
/// that do not rest.
std::uint32_t Links::free_lanes(PortIndex index) const {
  const Port& port = ports_[index];
  const bool shared = !port.endpoint && settings_.shared_input;
  std::uint32_t free = port.ready;
  if (!shared && settings_.turnaround == 0) return free;
  const std::uint32_t first = index * lane_stride_;
  for (std::uint32_t left = free; left != 0; left &= left - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(left));
    const OutLane& line = out_[first + lane];
    const bool used = shared && ports_[port_of(line.owner)].input_used == now_;
    if (used || line.open_at > now_) free &= ~(1u << lane);
  }
  return free;
}

bool Links::send_data(PortIndex index, Flit& flit) {
  Port& port = ports_[index];
  const std::uint32_t first = index * lane_stride_;
  const std::uint32_t ready = free_lanes(index);
  if (ready == 0) return false;
  const std::uint8_t lane = port.arbiter.pick(ready, port.table);
  const std::uint32_t out = first + lane;
  OutLane& line = out_[out];
  const std::uint32_t in = line.owner;
  Segment& part = front(in);
  flit.frame = part.frame;
  flit.lane = lane;
  flit.index = part.sent;
  flit.kind |= kData;
  if (part.sent == 0) flit.kind |= kHead;
  ++part.sent;
  ++line.sent;
  const bool last = part.sent == part.flits;
  if (last) flit.kind |= kTail;
  flit.sequence = port.next_sequence++;
  if (port.lossy != kNone) {
    Lossy& lossy = *lossy_[port.lossy];
    lossy.unacknowledged[flit.sequence & (lossy.unacknowledged.size() - 1)] = {
        flit.frame, flit.index, flit.lane, flit.kind};
  }
  if (!port.endpoint) {
    ports_[port_of(in)].input_used = now_;
    owe_credit(in, 1);
  }
  if (last) {
    pop_frame(in);
    release(out);
  } else {
    renew_ready(out);
  }
  ++stats_.flit_hops;
  return true;
}

void Links::process(PortIndex index) {
  Port& port = ports_[index];  // awake until the end, so that nothing wakes it meanwhile
  if (port.free_at > now_) return wake_at(index, port.free_at);
  Lossy* lossy = port.lossy == kNone ? nullptr : lossy_[port.lossy].get();
  Flit flit;
  bool sent = false;
  if (lossy != nullptr && lossy->sending_again) {
    sent = take_again(port, *lossy, flit);
  } else if (port.ready != 0 && (lossy == nullptr || window_open(port))) {
    sent = send_data(index, flit);
  }
  if (sent || port.owes_control) {
    if (lossy != nullptr) attach_answers(*lossy, flit);
    if (!sent) ++stats_.control_flits;
    transmit(index, flit);
    if (sent || settings_.control_takes_turns) port.free_at = now_ + port.ticks_per_flit;
  }
  const bool again = lossy != nullptr && lossy->sending_again;
  const bool data = port.ready != 0 && (lossy == nullptr || window_open(port));
  port.awake = again || data || port.owes_control;
  // Not in this tick: either the link is busy or other outputs took from the inputs concerned.
  if (port.awake) wake_at(index, std::max(now_ + 1, port.free_at));
}

void Links::take_credit(PortIndex index, const Flit& flit) {
  const std::uint32_t out = index * lane_stride_ + flit.credit_lane;
  OutLane& line = out_[out];
  // Totals of a link that repeats itself may come late, and never lead.
  const std::uint32_t more = flit.credit - line.returned;
  if (more == 0 || more > line.sent - line.returned) return;
  line.returned = flit.credit;
  renew_ready(out);
}

void Links::arrive(const Flit& flit) {
  const PortIndex index = flit.to;
  Port& port = ports_[index];
  if (port.lossy != kNone) {
    Lossy& lossy = *lossy_[port.lossy];
    if (flit.damaged) return notice_damage(index, lossy);
    take_acknowledgement(index, lossy, flit);
    if (flit.is(kCredit)) take_credit(index, flit);
    if (!flit.is(kData) || !accept_sequence(port, flit)) return;
  } else {
    port.acknowledged = flit.acknowledged;
    if (flit.is(kCredit)) take_credit(index, flit);
    if (!flit.is(kData)) return;
    WEFT_ASSERT(flit.sequence == port.expected);
    ++port.expected;
  }
  if (++port.unacknowledged >= settings_.ack_batch) {
    port.owes_control = true;
    wake(index);
  } else {
    arm_timer(index);
  }
  push_flit(flit, index);
}

void Links::step() {
  auto& flights = flights_[now_ & calendar_mask_];
  for (const Flit& flit : flights) arrive(flit);
  scheduled_ -= flights.size();
  flights.clear();
  auto& wakes = wakes_[now_ & calendar_mask_];
  for (std::size_t i = 0; i < wakes.size(); ++i) {  // grows while it is read
    const std::uint32_t entry = wakes[i];
    if ((entry & (kTimerBit | kNakBit)) == 0) {
      process(entry);
      continue;
    }
    if ((entry & kNakBit) != 0) {
      on_nak_timer(entry & ~kNakBit);
      continue;
    }
    Port& port = ports_[entry & ~kTimerBit];
    port.timer = false;
    if (port.owes_credit == 0 && port.unacknowledged == 0) continue;
    port.owes_control = true;
    wake(entry & ~kTimerBit);
  }
  scheduled_ -= wakes.size();
  wakes.clear();
  ++now_;
}

Tick Links::next_event() const {
  if (scheduled_ == 0) return kNever;
  for (Tick tick = now_;; ++tick) {
    const std::uint64_t at = tick & calendar_mask_;
    if (!flights_[at].empty() || !wakes_[at].empty()) return tick;
  }
}

void Links::skip_to(Tick tick) {
  WEFT_ASSERT(tick >= now_ && tick <= next_event());
  now_ = tick;
}

std::uint64_t Links::sent_by(PortIndex port) const {
  std::uint64_t sent = 0;
  for (std::uint32_t lane = 0; lane < lane_stride_; ++lane) {
    sent += out_[port * lane_stride_ + lane].sent;
  }
  return sent;
}

std::uint32_t Links::credits(PortIndex port, std::uint8_t lane) const {
  return out_[port * lane_stride_ + lane].credits();
}

std::uint32_t Links::buffered(PortIndex port, std::uint8_t lane) const {
  const InLane& in = in_[port * lane_stride_ + lane];
  return in.received - in.freed;
}

std::size_t Links::bytes() const {
  std::size_t total = ports_.capacity() * sizeof(Port) + in_.capacity() * sizeof(InLane) +
                      out_.capacity() * sizeof(OutLane) + segments_.capacity() * sizeof(Segment) +
                      sources_.capacity() * sizeof(Source) + ports_.size() * 10;
  for (const auto& bucket : flights_) total += bucket.capacity() * sizeof(Flit);
  for (const auto& bucket : wakes_) total += bucket.capacity() * sizeof(std::uint32_t);
  return total;
}

}  // namespace weft::fabric

// Of Links: frames through nodes, from an input lane's queue to the output lane that they own.
#include <bit>

#include "base/assert.h"
#include "fabric/links.h"

namespace weft::fabric {

void Links::inject(PortIndex port, FrameIndex frame) {
  Frame& what = frames_[frame];
  WEFT_ASSERT(ports_[port].endpoint && ports_[port].peer != kNone);
  WEFT_ASSERT(what.lane < settings_.lanes && what.flits > 0);
  what.from = port;
  what.next = kNone;
  const std::uint32_t in = port * lane_stride_ + what.lane;
  InLane& lane = in_[in];
  if (lane.count == 0) {
    front(in) = {frame, what.flits, 0, what.flits};
    lane.count = 1;
    return route_first(in);
  }
  Source& source = sources_[in];
  (source.first == kNone ? source.first : frames_[source.last].next) = frame;
  source.last = frame;
}

/// A flit with data has come to a port, in order.
void Links::push_flit(const Flit& flit, PortIndex index) {
  const std::uint32_t in = index * lane_stride_ + flit.lane;
  InLane& lane = in_[in];
  ++lane.received;
  if (ports_[index].endpoint) {  // which takes flits as they come
    owe_credit(in, 1);
    if (!flit.is(kTail)) return;
    if (forwarding_.answers_to(index, frames_[flit.frame].destination)) {
      arrived_.push_back({flit.frame, index, now_});
    } else {
      dropped_.push_back({flit.frame, index, Drop::kNotMine});
    }
    return;
  }
  WEFT_ASSERT(lane.received - lane.freed <=
              out_[ports_[index].peer * lane_stride_ + flit.lane].capacity);
  if (flit.is(kHead)) {
    const std::uint32_t at = lane.head + lane.count;
    segment(in, at) = {flit.frame, 1, 0, frames_[flit.frame].flits};
    if (++lane.count == 1) route_first(in);
    return;
  }
  Segment& last = segment(in, lane.head + lane.count - 1u);
  WEFT_ASSERT(last.frame == flit.frame && last.arrived == flit.index);
  ++last.arrived;
  if (lane.count > 1) return;
  if (lane.out == kConsumed) return consume(in, last);
  if (lane.out != kNone && out_[lane.out].owner == in) renew_ready(lane.out);
}

/// The first frame of an input lane has gone; whose turn it is next.
void Links::pop_frame(std::uint32_t in) {
  InLane& lane = in_[in];
  ++lane.head;
  --lane.count;
  lane.out = kNone;
  if (ports_[port_of(in)].endpoint) {
    Source& source = sources_[in];
    if (source.first == kNone) return;
    const FrameIndex next = source.first;
    source.first = frames_[next].next;
    front(in) = {next, frames_[next].flits, 0, frames_[next].flits};
    lane.count = 1;
  }
}

/// The owner has sent its last flit: the lane goes to the next in line, and the input lane's next
/// frame gets in line where it wants to go.
void Links::release(std::uint32_t out) {
  OutLane& line = out_[out];
  const std::uint32_t old = line.owner;
  line.owner = line.first_waiting;
  if (settings_.turnaround > 0) line.open_at = now_ + 1 + settings_.turnaround;
  if (line.owner != kNone) {
    line.first_waiting = in_[line.owner].next_waiting;
    if (line.first_waiting == kNone) line.last_waiting = kNone;
  }
  renew_ready(out);
  if (in_[old].count > 0) route_first(old);
}

/// Drops what has come of a frame that goes nowhere, and the frame with its last flit.
void Links::consume(std::uint32_t in, Segment& part) {
  const auto flits = static_cast<std::uint16_t>(part.arrived - part.sent);
  part.sent = part.arrived;
  owe_credit(in, flits);
  if (part.sent < part.flits) return;
  pop_frame(in);
  if (in_[in].count > 0) route_first(in);
}

/// Asks the network layer for the way of an input lane's first frame, and gets in line.
void Links::route_first(std::uint32_t in) {
  const PortIndex index = port_of(in);
  InLane& lane = in_[in];
  Segment& part = front(in);
  Frame& frame = frames_[part.frame];
  Hop hop{index, frame.lane, Drop::kNoRoute};
  if (!ports_[index].endpoint) hop = forwarding_.next_hop(index, frame);
  if (hop.out == kNone) {
    lane.out = kConsumed;
    dropped_.push_back({part.frame, index, hop.drop});
    return consume(in, part);
  }
  WEFT_ASSERT(hop.lane < settings_.lanes);
  const std::uint32_t out = hop.out * lane_stride_ + hop.lane;
  OutLane& line = out_[out];
  lane.out = out;
  lane.next_waiting = kNone;
  if (line.owner == kNone) {
    line.owner = in;
    return renew_ready(out);
  }
  (line.first_waiting == kNone ? line.first_waiting : in_[line.last_waiting].next_waiting) = in;
  line.last_waiting = in;
}

/// Whether the lane's owner has a flit and there is room for it at the other end.
void Links::renew_ready(std::uint32_t out) {
  const OutLane& line = out_[out];
  const PortIndex index = port_of(out);
  Port& port = ports_[index];
  const auto bit = static_cast<std::uint16_t>(1u << lane_of(out));
  bool ready = false;
  if (line.owner != kNone && line.sent - line.returned < line.capacity) {
    const Segment& part = front(line.owner);
    ready = part.arrived > part.sent;
    if (ready && settings_.whole_frames && part.sent == 0) {
      ready = line.credits() >= std::min<std::uint32_t>(part.flits, line.capacity);
    }
  }
  if (!ready) {
    port.ready = static_cast<std::uint16_t>(port.ready & ~bit);
    return;
  }
  port.ready = static_cast<std::uint16_t>(port.ready | bit);
  wake(index);
}

}  // namespace weft::fabric

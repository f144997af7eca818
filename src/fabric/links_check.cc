// Of Links: what must hold at any time, counted anew, and who waits for whom.
#include <fmt/format.h>

#include <algorithm>

#include "fabric/links.h"

namespace weft::fabric {

std::string Links::contradiction() const {
  std::vector<std::uint32_t> in_flight(in_.size());
  for (const auto& bucket : flights_) {
    for (const Flit& flit : bucket) {
      if (flit.is(kData)) ++in_flight[flit.to * lane_stride_ + flit.lane];
    }
  }
  for (std::uint32_t out = 0; out < out_.size(); ++out) {
    const PortIndex index = port_of(out);
    const Port& port = ports_[index];
    if (port.peer == kNone) continue;
    const OutLane& line = out_[out];
    const std::uint32_t there = port.peer * lane_stride_ + lane_of(out);
    const InLane& in = in_[there];
    const auto told = [&](std::string_view what) {
      return fmt::format("port {} lane {} at tick {}: {}", index, lane_of(out), now_, what);
    };
    std::uint32_t buffered = 0;
    if (!ports_[port.peer].endpoint) {
      for (std::uint32_t i = 0; i < in.count; ++i) {
        const Segment& part = segment(there, in.head + i);
        if (part.arrived > part.flits || part.sent > part.arrived) return told("a frame overflows");
        buffered += part.arrived - part.sent;
      }
    }
    const std::uint32_t sent = line.sent - in.received;
    const bool again = port.lossy != kNone;
    if (!again && sent != in_flight[there]) return told("flits were lost or made in flight");
    if (in.received - in.freed != buffered) return told("the buffer's count is wrong");
    const std::uint32_t returning = in.freed - line.returned;
    if (line.credits() + sent + buffered + returning != line.capacity) {
      return told(fmt::format("{} credits, {} in flight, {} buffered and {} returning are not {}",
                              line.credits(), sent, buffered, returning, line.capacity));
    }
    if (line.sent - line.returned > line.capacity) return told("more sent than there was room");
    const bool ready = (port.ready >> lane_of(out) & 1) != 0;
    if (ready && (line.owner == kNone || line.credits() == 0)) return told("wrongly ready");
  }
  return {};
}

FrameIndex Links::first_frame(std::uint32_t lane) const {
  return in_[lane].count == 0 ? kNone : front(lane).frame;
}

/// A lane that is blocked waits for exactly one other: so a cycle is found by walking.
std::vector<std::uint32_t> Links::wait_cycle() const {
  const auto waits_for = [this](std::uint32_t in) {
    const InLane& lane = in_[in];
    if (lane.count == 0 || lane.out == kNone || lane.out == kConsumed) return kNone;
    const OutLane& line = out_[lane.out];
    if (line.owner != in) return line.owner;
    const PortIndex peer = ports_[port_of(lane.out)].peer;
    const Segment& part = front(in);
    if (part.arrived == part.sent || ports_[peer].endpoint) return kNone;
    const std::uint32_t there = peer * lane_stride_ + lane_of(lane.out);
    const std::uint32_t room = line.capacity - (in_[there].received - in_[there].freed);
    const bool whole = settings_.whole_frames && part.sent == 0;
    const std::uint32_t wanted = whole ? std::min<std::uint32_t>(part.flits, line.capacity) : 1;
    return room >= wanted ? kNone : there;
  };
  std::vector<std::uint32_t> seen(in_.size());  // in which walk; 0: in none
  for (std::uint32_t start = 0; start < in_.size(); ++start) {
    std::uint32_t at = start;
    while (at != kNone && seen[at] == 0) {
      seen[at] = start + 1;
      at = waits_for(at);
    }
    if (at == kNone || seen[at] != start + 1) continue;
    std::vector<std::uint32_t> cycle{at};
    for (std::uint32_t next = waits_for(at); next != at; next = waits_for(next)) {
      cycle.push_back(next);
    }
    return cycle;
  }
  return {};
}

}  // namespace weft::fabric

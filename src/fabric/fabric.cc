#include "fabric/fabric.h"

#include <algorithm>

namespace weft::fabric {

Fabric::Fabric(const Shape& shape, const LinkSettings& settings)
    : shape_(shape), forwarding_(shape), links_(shape, settings, forwarding_, frames_) {}

FrameIndex Fabric::send(const Sending& what) {
  const FrameIndex index = frames_.take();
  Frame& frame = frames_[index];
  frame.flits = what.flits;
  frame.source = forwarding_.lid_of(what.from);
  frame.destination = what.destination;
  frame.service_level = what.service_level;
  frame.lane = what.lane;
  frame.hop_limit = what.hop_limit;
  frame.global = what.address.has_value();
  if (what.address) frame.address = *what.address;
  frame.created = now();
  frame.cookie = what.cookie;
  frame.bytes = what.bytes;
  links_.inject(what.from, index);
  return index;
}

bool Fabric::run(Tick most) {
  const Tick end = now() + most;
  while (!links_.idle()) {
    const Tick next = links_.next_event();
    if (next >= end) return false;
    links_.skip_to(next);
    links_.step();
  }
  return true;
}

std::vector<Blocked> Fabric::find_deadlock() {
  std::vector<std::uint32_t> cycle = links_.wait_cycle();
  // From its smallest lane on, so that the same cycle looks the same.
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  std::uint64_t progress = 0;
  for (const std::uint32_t lane : cycle) progress += links_.progress_of(lane);
  const bool same = !cycle.empty() && cycle == suspected_ && progress == suspected_progress_;
  suspected_ = cycle;
  suspected_progress_ = progress;
  std::vector<Blocked> blocked;
  if (!same) return blocked;
  for (const std::uint32_t lane : cycle) {
    blocked.push_back({links_.port_of(lane), links_.lane_of(lane), links_.first_frame(lane)});
  }
  return blocked;
}

std::size_t Fabric::bytes() const {
  return frames_.bytes() + forwarding_.bytes() + links_.bytes() +
         shape_.nodes.capacity() * sizeof(NodeShape) + shape_.ports.capacity() * sizeof(PortShape);
}

}  // namespace weft::fabric

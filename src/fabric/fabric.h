// A fabric in virtual time: links, switches and routers over one shape. It does not care who drives
// it: the driver injects frames, lets ticks pass, and takes what has arrived and what was dropped.
// Owned by its driver; the shape outlives it. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fabric/forwarding.h"
#include "fabric/links.h"
#include "fabric/shape.h"

namespace weft::fabric {

/// An input lane that cannot go on, and the next one in the cycle is what it waits for.
struct Blocked {
  PortIndex port;
  std::uint8_t lane;
  FrameIndex frame;
};

/// What a driver wants to send. The LID is that of the destination, or of a router.
struct Sending {
  PortIndex from = kNone;
  Lid destination;
  std::uint16_t flits = 1;
  std::uint8_t lane = 0;
  std::uint8_t service_level = 0;
  std::uint8_t hop_limit = 64;
  std::optional<Gid> address;       ///< for a router
  std::span<std::byte> bytes = {};  ///< of the frame; outlive it
  std::uint64_t cookie = 0;
};

class Fabric {
 public:
  Fabric(const Shape& shape, const LinkSettings& settings);

  Forwarding& forwarding() { return forwarding_; }
  const Forwarding& forwarding() const { return forwarding_; }
  Links& links() { return links_; }
  const Links& links() const { return links_; }
  const Shape& shape() const { return shape_; }
  const Frame& frame(FrameIndex frame) const { return frames_[frame]; }

  FrameIndex send(const Sending& what);
  /// One tick.
  void step() { links_.step(); }
  Tick now() const { return links_.now(); }
  /// Until nothing is under way, or for so many ticks. False: it is not idle yet.
  bool run(Tick most);
  /// Frames that nobody has released yet.
  std::size_t frames() const { return frames_.in_use(); }

  /// What has happened since the last call; the frames are the driver's to release.
  std::vector<Arrival> take_arrivals() { return std::exchange(links_.arrivals(), {}); }
  std::vector<Dropped> take_drops() { return std::exchange(links_.drops(), {}); }
  /// The same without giving the memory away: for loops that must not allocate.
  std::vector<Arrival>& arrivals() { return links_.arrivals(); }
  std::vector<Dropped>& drops() { return links_.drops(); }
  void release(FrameIndex frame) { frames_.give_back(frame); }

  /// Lanes that wait for each other in a cycle, and that have not moved since the last call, which
  /// was more than a round trip ago: they never will. Empty: there are none.
  std::vector<Blocked> find_deadlock();

  std::size_t bytes() const;

 private:
  const Shape& shape_;
  FramePool frames_;
  Forwarding forwarding_;
  Links links_;
  std::vector<std::uint32_t> suspected_;
  std::uint64_t suspected_progress_ = 0;
};

}  // namespace weft::fabric

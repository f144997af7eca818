// A frame in the fabric: what the network layer knows of it, and where its bytes are if it has any.
// A traffic study has none, and then a frame is its length. Frames live in a FramePool, which the
// Fabric owns, and are named by their index: a flit that is on a link holds 4 bytes of it. One
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"
#include "weft/types.h"

namespace weft::fabric {

/// Virtual time: a tick is the time that a link of the base rate takes for one flit.
using Tick = std::uint64_t;
/// A port of the whole fabric: first_port(node) + number - 1.
using PortIndex = std::uint32_t;
using NodeIndex = std::uint32_t;
using FrameIndex = std::uint32_t;

inline constexpr std::uint32_t kNone = ~0u;
inline constexpr std::uint8_t kMaxLanes = 16;

struct Frame {
  std::uint16_t flits = 1;
  Lid source, destination;
  std::uint8_t service_level = 0;
  std::uint8_t lane = 0;        ///< chosen at the source, kept across a subnet
  std::uint8_t hop_limit = 64;  ///< switches and routers that it may still cross
  bool global = false;          ///< it has a GRH: routers go by `address`
  std::uint16_t hops = 0;       ///< that it has crossed
  FrameIndex next = kNone;      ///< in the source's queue or in the pool
  PortIndex from = kNone;
  Tick created = 0;
  std::uint64_t cookie = 0;  ///< the driver's
  Gid address;               ///< of the destination, when global
  std::span<std::byte> bytes;
};

class FramePool {
 public:
  FrameIndex take() {
    ++in_use_;
    if (free_ == kNone) {
      frames_.emplace_back();
      return static_cast<FrameIndex>(frames_.size() - 1);
    }
    const FrameIndex frame = free_;
    free_ = frames_[frame].next;
    frames_[frame] = {};
    return frame;
  }
  void give_back(FrameIndex frame) {
    WEFT_ASSERT(in_use_ > 0);
    --in_use_;
    frames_[frame].next = free_;
    free_ = frame;
  }
  Frame& operator[](FrameIndex frame) { return frames_[frame]; }
  const Frame& operator[](FrameIndex frame) const { return frames_[frame]; }
  std::size_t in_use() const { return in_use_; }
  std::size_t bytes() const { return frames_.capacity() * sizeof(Frame); }

 private:
  std::vector<Frame> frames_;
  FrameIndex free_ = kNone;
  std::size_t in_use_ = 0;
};

}  // namespace weft::fabric

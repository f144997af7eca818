// The send queue of one channel as the protocol sees it: how much room is left, which work is
// complete, and whether the peer has to be notified. Every so many pieces of work one asks for a
// completion, which stands for all before it. Belongs to one endpoint and lives as long.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "channel/layout.h"
#include "channel/wires.h"

namespace weft::channel {

/// Of the receiving direction, in frames: what has been consumed, and how much of that the peer has
/// been told. What goes out tells it along.
struct Room {
  std::uint32_t consumed = 0, told = 0;
};

class Dormant;
struct DormantRest;

/// What an end has besides its rings.
struct Control {
  std::byte* memory;  ///< kControlBytes, cleared, which the peer may write
  std::byte* stage;   ///< kStageBytes; null: the device takes kInlineMost bytes from anywhere
  LocalKey key;       ///< of the stage
};

class Outlet {
 public:
  Outlet(Wires& wires, std::uint32_t depth, const Control& control)
      : wires_(wires),
        depth_(depth),
        control_(control.memory),
        stage_(control.stage),
        stage_key_(control.key) {}

  bool has_room() const { return posted_ - completed_ < depth_; }
  /// Number of the newest work; it is complete when done(number).
  std::uint32_t posted() const { return posted_; }
  bool done(std::uint32_t number) const {
    return static_cast<std::int32_t>(completed_ - number) >= 0;
  }
  bool failed() const { return failed_; }
  /// Work that asked for a completion has not got it yet.
  bool awaits() const { return static_cast<std::int32_t>(signaled_ - completed_) > 0; }

  /// Needs has_room(). Gives the work's number.
  std::uint32_t post(Work&& work) {
    work.number = ++posted_;
    // Behind a bell, which may have to pass the peer's hands, one work asks: where nobody waits for
    // the answer it may come late, and until then all that follows would go the bell's way.
    work.signaled = work.signaled || posted_ - signaled_ >= (depth_ + 1) / 2 ||
                    (behind_bell_ && !work.bell && !awaits());
    behind_bell_ = work.bell || (behind_bell_ && !work.signaled);
    if (work.signaled) signaled_ = posted_;
    bells_ += work.bell;
    if (!wires_.post(work)) failed_ = true;
    return posted_;
  }
  /// Work that writes `value`, which lies at `offset` of the stage meanwhile, if there is one.
  template <class T>
  Work writing(const T& value, std::uint32_t offset) {
    Work work{.length = sizeof value};
    if (stage_ == nullptr) {
      work.local = reinterpret_cast<const std::byte*>(&value);
      work.inlined = true;
    } else {
      store(stage_ + offset, value);
      work.local = stage_ + offset;
      work.local_key = stage_key_;
    }
    return work;
  }
  /// A frame can go by write(): there is room, and the peer looks.
  bool is_clear() const { return has_room() && !behind_bell_ && peer_mode() == Mode::kWatching; }
  std::uint32_t write(const std::byte* from, std::uint32_t length, std::uint64_t remote,
                      FrameKeys keys) {
    const std::uint32_t number = ++posted_;
    const bool signaled = number - signaled_ >= (depth_ + 1) / 2;
    if (signaled) signaled_ = number;
    unnotified_ = true;
    if (!wires_.write(from, length, remote, keys, {number, signaled})) [[unlikely]]
      failed_ = true;
    return number;
  }
  /// The same, for what the peer must notice: a bell goes with it unless it says that it polls.
  /// A peer that stops looking at this moment may miss it: unnotified() stays until somebody rings.
  std::uint32_t post_and_wake(Work&& work) {
    work.bell = peer_mode() != Mode::kWatching;
    unnotified_ = !work.bell;
    return post(std::move(work));
  }
  /// The same, for what the peer must notice only if it waits for room.
  void post_room(Work&& work) {
    const Mode mode = peer_mode();
    work.bell = work.bell || mode == Mode::kWantsRoom;
    unnotified_ = !work.bell && (unnotified_ || mode == Mode::kWatching);
    post(std::move(work));
  }
  Mode peer_mode() const {
    return static_cast<Mode>(watch32(control_ + kStatusOffset + offsetof(Status, mode)));
  }
  std::uint64_t bells() const { return bells_; }
  std::uint32_t stage_bytes() const { return stage_ != nullptr ? kStageBytes : 0; }
  bool unnotified() const { return unnotified_; }
  void notified() { unnotified_ = false; }
  /// All work up to this one is complete. False: no such work was outstanding.
  bool on_done(std::uint32_t number) {
    if (static_cast<std::int32_t>(number - completed_) < 0 ||
        static_cast<std::int32_t>(posted_ - number) < 0) {
      return false;
    }
    completed_ = number;
    return true;
  }
  void fail() { failed_ = true; }
  Room& room() { return room_; }

  // dormant.cc
  bool can_be_dormant() const;
  void sleep(Dormant& to, DormantRest& rest) const;
  void wake(const Dormant& from, const DormantRest& rest);

 private:
  Wires& wires_;
  const std::uint32_t depth_;
  std::uint32_t posted_ = 0, completed_ = 0, signaled_ = 0;
  Room room_;
  std::uint64_t bells_ = 0;
  const std::byte* const control_;
  std::byte* const stage_;
  const LocalKey stage_key_;
  bool failed_ = false, unnotified_ = false, behind_bell_ = false;
};

}  // namespace weft::channel

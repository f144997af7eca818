// How much a reliable connection has under way: few frames at first, more while acknowledgements
// come back, fewer after a loss or a mark, so that senders share a link and no receive buffer
// overflows for long. Also how long an acknowledgement usually takes, so that a lost last frame is
// noticed long before the time-out that the program asked for. A plain value inside the requester;
// time comes in as an argument.
//
//   frames under way
//     ^        /|            slow start doubles per round trip up to the threshold, then a
//     |   ____/ |   /|       few kilobytes more per round trip; a loss takes half away when
//     |  /      |  / |  /    answers take longer than they could, since then a queue has run
//     | /       |_/  |_/     full, and little otherwise; a time-out all but a few.
//     +--------------------> time
#pragma once

#include <algorithm>
#include <cstdint>

#include "weft/types.h"

namespace weft::transport {

class Window {
 public:
  /// What a receive buffer of the usual size holds even if frames arrive one by one.
  static constexpr std::uint32_t kFirstBytes = 128 << 10;
  static constexpr std::uint32_t kMostBytes = 1 << 20;
  static constexpr std::uint32_t kStepBytes = 4096;
  static constexpr std::uint32_t kFewestFrames = 8, kMostFirstFrames = 256, kMostFrames = 1024;
  static constexpr Nanoseconds kShortestTimeout_ns = 1'000'000;
  static constexpr Nanoseconds kLeastMarkPause_ns = 50'000;
  static constexpr std::uint32_t kAllMarked = 1024;
  static constexpr std::uint32_t kRoundsPerLook = 8;
  static constexpr Nanoseconds kFineQueue_ns = 1'000'000;
  /// This seldom hardly anything is under way for a moment, to see how long answers take then.
  static constexpr std::uint32_t kLooksPerDrain = 16, kFirstDrain = 2;

  void start(std::uint32_t mtu) {
    most_ = std::clamp<std::uint32_t>(kMostBytes / mtu, 2 * kFewestFrames, kMostFrames);
    frames_ = std::clamp<std::uint32_t>(kFirstBytes / mtu, kFewestFrames, kMostFirstFrames);
    step_ = std::max<std::uint32_t>(1, kStepBytes / mtu);
    threshold_ = most_;
    grown_ = 0;
    shortest_ns_ = recent_ns_ = kNever;
    recent_ = looks_ = drained_frames_ = 0;
    round_trip_ns_ = marked_at_ns_ = 0;
    marks_ = kAllMarked;
  }

  std::uint32_t frames() const { return frames_; }
  std::uint32_t most() const { return most_; }

  /// `under_way` were, before `count` of them were acknowledged.
  void on_acknowledged(std::uint32_t count, std::uint32_t under_way) {
    if (frames_ >= most_ || 2 * under_way < frames_) return;  // the program sends less than it may
    if (frames_ < threshold_) {
      frames_ = std::min(frames_ + count, most_);
      return;
    }
    grown_ += count * step_;
    for (; grown_ >= frames_ && frames_ < most_; ++frames_) grown_ -= frames_;
  }

  /// Once for all that was under way when it happened.
  void on_loss() {
    drained_frames_ = 0;
    const bool queued = round_trip_ns_ > 2 * shortest_ns_;
    threshold_ = frames_ = std::max(kFewestFrames, queued ? frames_ / 2 : frames_ * 8 / 10);
    grown_ = 0;
  }
  /// A frame was marked on its way: a router's queue grows. The more often that happens, the more
  /// is taken away, from a little to half; once per round trip.
  void on_mark(Nanoseconds now) {
    if (now < marked_at_ns_ + std::max(round_trip_ns_, kLeastMarkPause_ns)) return;
    // Weight of the marks: those of the last round trips count most.
    if (marked_at_ns_ != 0) {
      const Nanoseconds quiet_ns = now - marked_at_ns_;
      const Nanoseconds rounds = quiet_ns / std::max(round_trip_ns_, kLeastMarkPause_ns);
      for (Nanoseconds i = 1; i < rounds && marks_ > 0; ++i) marks_ -= (marks_ + 15) / 16;
    }
    marks_ += (kAllMarked - marks_) / 16;
    marked_at_ns_ = now;
    threshold_ = frames_ = std::max(
        kFewestFrames,
        frames_ - static_cast<std::uint32_t>(std::uint64_t{frames_} * marks_ / (2 * kAllMarked)));
    grown_ = 0;
  }
  void on_timeout() {
    threshold_ = std::max(kFewestFrames, frames_ / 2);
    frames_ = kFewestFrames;
    grown_ = 0;
  }

  void on_round_trip(Nanoseconds took_ns) {
    round_trip_ns_ = round_trip_ns_ == 0 ? took_ns : (7 * round_trip_ns_ + took_ns) / 8;
    shortest_ns_ = std::min(shortest_ns_, std::max<Nanoseconds>(took_ns, 1));
    recent_ns_ = std::min(recent_ns_, took_ns);
    if (frames_ < threshold_ && took_ns > fine_ns()) threshold_ = frames_;  // doubling has to end
    if (++recent_ < kRoundsPerLook) return;
    if (drained_frames_ != 0) {
      frames_ = std::max(frames_, drained_frames_);
      drained_frames_ = 0;
    } else {
      on_standing_queue(recent_ns_);
    }
    recent_ = 0;
    recent_ns_ = kNever;
    if (++looks_ % kLooksPerDrain != kFirstDrain) return;
    drained_frames_ = frames_;
    frames_ = kFewestFrames;
  }
  bool knows_round_trip() const { return round_trip_ns_ != 0; }
  /// When a frame counts as lost after `attempts` repetitions; kNever: nothing is known yet.
  Nanoseconds timeout_ns(unsigned attempts) const {
    if (round_trip_ns_ == 0) return kNever;
    return std::max(kShortestTimeout_ns, 4 * round_trip_ns_) << std::min(attempts, 16u);
  }

 private:
  /// How long an answer may take. The same for all that are near, so that none who came when the
  /// queue was long expects that.
  Nanoseconds fine_ns() const {
    return shortest_ns_ <= kFineQueue_ns ? kFineQueue_ns : 2 * shortest_ns_;
  }
  /// Even the shortest of several round trips in a row took this long. A process that lost its core
  /// for a moment delays some of them, a queue all: there is more under way than the link needs,
  /// and whoever has most of it gives up most. This is what makes streams alike.
  void on_standing_queue(Nanoseconds took_ns) {
    if (took_ns <= fine_ns()) return;
    threshold_ = frames_ = std::max(kFewestFrames, frames_ * 7 / 10);
    grown_ = 0;
  }

  std::uint32_t frames_ = kFewestFrames;
  std::uint32_t most_ = kMostFrames;
  std::uint32_t threshold_ = kMostFrames;
  std::uint32_t step_ = 1;            ///< frames more per round trip
  std::uint32_t grown_ = 0;           ///< acknowledged since it last grew by one, times step_
  std::uint32_t marks_ = kAllMarked;  ///< how often marks come, of kAllMarked
  Nanoseconds marked_at_ns_ = 0;
  Nanoseconds round_trip_ns_ = 0;
  Nanoseconds shortest_ns_ = kNever;  ///< round trip that was ever seen
  Nanoseconds recent_ns_ = kNever;    ///< the shortest of the last ones
  std::uint32_t recent_ = 0;          ///< how many these are
  std::uint32_t looks_ = 0;           ///< at them
  std::uint32_t drained_frames_ = 0;  ///< what the window was before it was drained; 0: it is not
};

}  // namespace weft::transport

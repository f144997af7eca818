// How much a reliable connection has under way: few frames at first, more while acknowledgements
// come back, fewer after a loss or a mark, or when answers take long, so that senders share a link
// and no receive buffer overflows for long. Also how long an acknowledgement usually takes, so that
// a lost last frame is noticed long before the time-out that the program asked for. A plain value
// inside the requester; time comes in as an argument.
//
//   frames under way
//     ^        /|            slow start doubles per round trip up to the threshold, then a
//     |   ____/ |   /|       few kilobytes more per round trip; a loss takes half away when
//     |  /      |  / |  /    answers take longer than they could, since then a queue has run
//     | /       |_/  |_/     full, and little otherwise; a time-out all but a few.
//     +--------------------> time
//
// Streams that share a queue see the same delay. How much of it one takes for fine depends on how
// much it has under way: the more, the less. So whoever has more than the others gives way first,
// and they meet where all have the same.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "weft/types.h"

namespace weft::transport {

class Window {
 public:
  /// What a receive buffer of the usual size holds even if frames arrive one by one.
  static constexpr std::uint32_t kFirstBytes = 128 << 10;
  static constexpr std::uint32_t kMostBytes = 1 << 20;
  static constexpr std::uint32_t kFewestFrames = 8, kMostFirstFrames = 256, kMostFrames = 1024;
  /// With this much under way or more it grows by kStepBytes per round trip, and an answer may
  /// take kFine_ns; with a quarter of it, it grows by half of that, and an answer may take twice
  /// that.
  static constexpr std::uint32_t kMuchBytes = 512 << 10;
  static constexpr std::uint32_t kStepBytes = 4096;
  static constexpr Nanoseconds kFine_ns = 1'000'000;
  /// A way whose shortest round trip is no longer than this counts as having no length.
  static constexpr Nanoseconds kNear_ns = 1'000'000;
  static constexpr Nanoseconds kShortestTimeout_ns = 1'000'000;
  static constexpr Nanoseconds kMostLate_ns = 20'000'000;
  static constexpr Nanoseconds kLeastMarkPause_ns = 50'000;
  static constexpr std::uint32_t kAllMarked = 1024;
  static constexpr std::uint32_t kRoundsPerLook = 8, kRoundsPerQuickLook = 3;
  /// This seldom hardly anything is under way for a moment, to see how long answers take then.
  static constexpr Nanoseconds kBetweenDrains_ns = 1 << 27, kMostBetweenDrains_ns = 1 << 30;
  static constexpr std::uint32_t kRoundsBetweenDrains = 64, kFirstDrains = 2;
  static constexpr std::uint32_t kDrainedFrames = 2;

  /// Losses that are so far apart while no queue has formed are of chance.
  static constexpr std::uint32_t kFramesByChance = 32;

  void start(std::uint32_t mtu) {
    most_ = std::clamp<std::uint32_t>(kMostBytes / mtu, 2 * kFewestFrames, kMostFrames);
    frames_ = std::clamp<std::uint32_t>(kFirstBytes / mtu, kFewestFrames, kMostFirstFrames);
    much_ = kMuchBytes / mtu;
    threshold_ = most_;
    grown_ = since_loss_ = 0;
    shortest_ns_ = recent_ns_ = kNever;
    recent_ = drains_ = drained_frames_ = 0;
    round_trip_ns_ = latest_ns_ = late_ns_ = marked_at_ns_ = drain_at_ns_ = 0;
    marks_ = kAllMarked;
    weigh();
  }

  std::uint32_t frames() const { return frames_; }
  std::uint32_t most() const { return most_; }

  /// `under_way` were, before `count` of them were acknowledged.
  void on_acknowledged(std::uint32_t count, std::uint32_t under_way, Nanoseconds now) {
    since_loss_ = std::min(since_loss_ + count, kFramesByChance);
    if (now >= drain_at_ns_) drain(now);
    if (drained_frames_ != 0 && now >= drained_until_ns_) end_drain();
    if (frames_ >= most_ || drained_frames_ != 0) return;
    if (2 * under_way < frames_) return;  // the program sends less than it may
    if (frames_ < threshold_) {
      frames_ = std::min(frames_ + count, most_);
      return;
    }
    grown_ += count * step_;
    for (; grown_ >= kStepUnits * frames_ && frames_ < most_; ++frames_) {
      grown_ -= kStepUnits * frames_;
    }
  }

  /// Once for all that was under way when it happened.
  void on_loss() {
    end_drain();
    const Nanoseconds least_ns = shortest_ns_ > kNear_ns ? shortest_ns_ : 0;
    const bool queued = std::max(round_trip_ns_, latest_ns_) > least_ns + kFine_ns / 4;
    const bool by_chance = !queued && std::exchange(since_loss_, 0) >= kFramesByChance;
    if (by_chance) return shrink_to(std::max(frames_ * 8 / 10, std::min(frames_, much_ / 4)));
    shrink_to(queued ? frames_ / 2 : frames_ * 8 / 10);
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
    end_drain();
    marks_ += (kAllMarked - marks_) / 16;
    marked_at_ns_ = now;
    const std::uint64_t share = std::uint64_t{frames_} * marks_ / (2 * kAllMarked);
    shrink_to(frames_ - static_cast<std::uint32_t>(share));
  }
  void on_timeout() {
    end_drain();
    threshold_ = std::max(kFewestFrames, frames_ / 2);
    frames_ = kFewestFrames;
    grown_ = 0;
  }

  void on_round_trip(Nanoseconds took_ns) {
    shortest_ns_ = std::min(shortest_ns_, std::max<Nanoseconds>(took_ns, 1));
    if (drained_frames_ != 0) return;  // it is not always so short
    round_trip_ns_ = round_trip_ns_ == 0 ? took_ns : (7 * round_trip_ns_ + took_ns) / 8;
    late_ns_ -= late_ns_ / 16;
    recent_ns_ = std::min(recent_ns_, took_ns);
    latest_ns_ = took_ns;
    weigh();
    if (frames_ < threshold_ && took_ns > fine_ns_) threshold_ = frames_;  // doubling has to end
    const bool far_too_long = recent_ns_ > 3 * fine_ns_;
    if (++recent_ < (far_too_long ? kRoundsPerQuickLook : kRoundsPerLook)) return;
    on_standing_queue(recent_ns_);
    recent_ = 0;
    recent_ns_ = kNever;
  }
  /// The answer came after a probe, so late after the frame that it may be for. Perhaps that was
  /// lost; perhaps the peer's process had no core. Of a peer that loses it often one waits longer
  /// for a while, else every frame would go out twice.
  void on_late_answer(Nanoseconds took_ns) {
    late_ns_ = std::max(late_ns_, std::min(took_ns, kMostLate_ns));
  }
  bool knows_round_trip() const { return round_trip_ns_ != 0; }
  /// When a frame counts as lost after `attempts` repetitions; kNever: nothing is known yet.
  Nanoseconds timeout_ns(unsigned attempts) const {
    if (round_trip_ns_ == 0) return kNever;
    return std::max({kShortestTimeout_ns, 4 * round_trip_ns_, late_ns_ + late_ns_ / 2})
           << std::min(attempts, 16u);
  }

 private:
  static constexpr std::uint32_t kStepUnits = 64;  ///< parts of a frame

  void shrink_to(std::uint32_t frames) {
    threshold_ = frames_ = std::max(kFewestFrames, frames);
    grown_ = 0;
  }
  /// What follows from how much is under way.
  void weigh() {
    const double root = std::min(1.0, std::sqrt(static_cast<double>(frames_) / much_));
    step_ = std::max<std::uint32_t>(
        1, static_cast<std::uint32_t>(root * much_ * kStepUnits * kStepBytes / kMuchBytes));
    fine_ns_ = static_cast<Nanoseconds>(static_cast<double>(kFine_ns) / root);
    if (shortest_ns_ > kNear_ns && shortest_ns_ != kNever) fine_ns_ += shortest_ns_;
  }
  /// At the same time as all others of this host: together they leave the queue empty.
  void drain(Nanoseconds now) {
    const bool first = drain_at_ns_ == 0;
    // Over a long way they cost more, and are rarer: once it is known how long it really is.
    Nanoseconds pause_ns = kBetweenDrains_ns;
    while (drains_ >= kFirstDrains && pause_ns < kMostBetweenDrains_ns &&
           pause_ns < kRoundsBetweenDrains * shortest_ns_) {
      pause_ns *= 2;
    }
    drain_at_ns_ = (now / pause_ns + 1) * pause_ns;
    if (first || drained_frames_ != 0 || latest_ns_ <= kNear_ns) return;
    drains_ = std::min(drains_ + 1, kFirstDrains);
    drained_frames_ = frames_;
    frames_ = kDrainedFrames;
    drained_until_ns_ = now + 2 * latest_ns_;  // until all is gone, and as long again
  }
  void end_drain() {
    frames_ = std::max(frames_, drained_frames_);
    drained_frames_ = 0;
    recent_ = 0;
    recent_ns_ = kNever;
  }
  /// Even the shortest of several round trips in a row took this long. A process that lost its core
  /// for a moment delays some of them, a queue all: there is more under way than the link needs.
  void on_standing_queue(Nanoseconds took_ns) {
    if (took_ns <= fine_ns_) return;
    const double excess = static_cast<double>(took_ns - fine_ns_) / static_cast<double>(took_ns);
    shrink_to(static_cast<std::uint32_t>(frames_ * (1 - std::min(0.5, excess))));
  }

  std::uint32_t frames_ = kFewestFrames;
  std::uint32_t most_ = kMostFrames;
  std::uint32_t much_ = kMostFrames;
  std::uint32_t threshold_ = kMostFrames;
  std::uint32_t step_ = 1;            ///< more per round trip
  std::uint32_t grown_ = 0;           ///< acknowledged since it last grew by one, times step_
  std::uint32_t since_loss_ = 0;      ///< acknowledged
  std::uint32_t marks_ = kAllMarked;  ///< how often marks come, of kAllMarked
  Nanoseconds fine_ns_ = kFine_ns;    ///< an answer may take
  Nanoseconds marked_at_ns_ = 0, latest_ns_ = 0, drain_at_ns_ = 0, drained_until_ns_ = 0;
  Nanoseconds round_trip_ns_ = 0;
  Nanoseconds late_ns_ = 0;           ///< answers have been, lately
  Nanoseconds shortest_ns_ = kNever;  ///< round trip that was ever seen
  Nanoseconds recent_ns_ = kNever;    ///< the shortest of the last ones
  std::uint32_t recent_ = 0;          ///< how many these are
  std::uint32_t drains_ = 0;          ///< how many there were, of the first ones
  std::uint32_t drained_frames_ = 0;  ///< what the window was before it was drained; 0: it is not
};

}  // namespace weft::transport

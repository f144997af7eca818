// When a reliable stream acknowledges: the whole policy is here.
//
// The sender asks (AckRequests). A message that somebody waits for asks, and every so many frames
// one does. A short message without completion need not: its acknowledgement would tell nobody
// anything, and costs both ends a frame. Whatever is still unacknowledged when the traffic stops is
// asked for by a probe; where that happens again and again, the next messages ask themselves.
//
// The receiver acknowledges what asks (stream_receiver.h), or each frame if its program set
// AckPolicy::kEachFrame. Where the program itself polls, the acknowledgement may wait for the
// program's reply (AckDelay).
//
// Plain values inside the two halves of a stream; time comes in as an argument.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "weft/queue_pair_attributes.h"
#include "weft/types.h"

namespace weft::transport {

class AckRequests {
 public:
  /// A message without completion that is longer than this asks too: to probe it would cost more.
  static constexpr std::uint32_t kShortBytes = 1024;
  /// No frame of a connection that goes on sending stays unacknowledged for longer.
  static constexpr Nanoseconds kLongestSilence_ns = 400'000;
  static constexpr std::uint32_t kEveryFrames = 32, kMostEveryFrames = 128;
  static constexpr unsigned kMostAsking = 255;

  void start(Psn first) {
    *this = {};
    asked_ = first;
  }

  /// Of how many frames one asks, with so many in a window.
  static constexpr std::uint32_t every(std::uint32_t window) {
    return window < 4 * kEveryFrames ? window / 4
                                     : std::clamp(window / 8, kEveryFrames, kMostEveryFrames);
  }
  /// A frame that need not ask is about to leave, perhaps the last one of a message; true: it
  /// should all the same.
  bool should_ask(std::uint32_t every_frames, bool ends_message, Nanoseconds now) {
    if (ends_message && asking_ > 0) {
      --asking_;
      return true;
    }
    if (silent_frames_ == 0) silent_since_ = now;
    if (++silent_frames_ >= every_frames) {
      in_vain_ = 0;  // traffic that goes on, as expected
      return true;
    }
    return ends_message && now >= silent_since_ + kLongestSilence_ns;
  }
  /// The frame before this number asks.
  void on_ask(Psn behind) {
    silent_frames_ = 0;
    if (asked_.before(behind)) asked_ = behind;
  }
  /// Nothing came for so long that a probe goes out.
  void on_probe(Psn unacked) {
    if (is_awaited(unacked)) return;  // a loss, or a peer that sleeps: asking would not have helped
    in_vain_ = std::min(2 * in_vain_ + 1, kMostAsking);
    asking_ = in_vain_;
  }
  /// An acknowledgement is on its way, or will be once the peer has what is under way.
  bool is_awaited(Psn unacked) const { return unacked.before(asked_); }

 private:
  Psn asked_;  ///< behind the last frame that asked
  std::uint32_t silent_frames_ = 0;
  Nanoseconds silent_since_ = 0;
  unsigned asking_ = 0;   ///< so many more frames ask
  unsigned in_vain_ = 0;  ///< so many did after the last probe of this kind
};

/// Whether an acknowledgement waits for the program's reply, to leave in the same call. Each one
/// that waited in vain keeps more of the next ones from waiting.
class AckDelay {
 public:
  static constexpr unsigned kMostUndelayed = 255;

  /// An acknowledgement could wait; true: it does.
  bool delay() {
    if (undelayed_left_ == 0) return delayed_ = true;
    --undelayed_left_;
    return false;
  }
  bool is_delayed() const { return delayed_; }
  /// It leaves, or something that says as much; true: it had waited. Then learn().
  bool end() { return std::exchange(delayed_, false); }
  void learn(bool left_with_reply) {
    undelayed_ = left_with_reply ? 0 : std::min(2 * undelayed_ + 1, kMostUndelayed);
    undelayed_left_ = undelayed_;
  }

 private:
  bool delayed_ = false;
  unsigned undelayed_ = 0;       ///< so many do not wait after the next one that waits in vain
  unsigned undelayed_left_ = 0;  ///< of them
};

/// An acknowledgement has to leave before the next frame is looked at.
inline bool acknowledges_each(const QueuePairAttributes& attributes) {
  return attributes.ack_policy == AckPolicy::kEachFrame;
}

}  // namespace weft::transport

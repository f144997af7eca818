// How frames have been coming to a socket lately, and so by which call to ask for the next ones. A
// program that waits for one frame at a time gets the shortest call there is; a stream is read
// until nothing is left. Plain values; owned by a port's receive side, one thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

namespace weft::port {

class ArrivalPattern {
 public:
  /// Frames come one by one. Of so many calls then one reports the header fields all the same.
  bool one_by_one() { return frames_alone_ >= kFramesAlone && ++calls_ % kCallsPerReport != 0; }
  /// A datagram is likely to be followed by another. One by itself after a pause is not: to look
  /// for the next would delay the program that waits for this one.
  bool in_burst() const { return in_burst_; }

  /// A call brought so many frames in so many bytes. In doubt: it was the short call, and they may
  /// be more than they seem.
  void on_frames(std::size_t frames, std::size_t bytes, bool in_doubt) {
    if (frames > kFewFrames) in_burst_ = true;
    if (frames > kFewFrames || in_doubt) {
      frames_alone_ = 0;
    } else if (std::exchange(waited_, false) || bytes <= kSmallBytes) {
      frames_alone_ = std::min(frames_alone_ + 1, 2 * kFramesAlone);
    } else {
      frames_alone_ -= frames_alone_ / 4;
    }
  }
  /// A call brought nothing.
  void on_nothing() { waited_ = true; }
  /// Neither did any other socket.
  void on_idle() { in_burst_ = false; }

 private:
  /// As many as a reply and its acknowledgement.
  static constexpr std::size_t kFewFrames = 2;
  /// So little by itself, an acknowledgement for example, is no sign of a stream, also if nobody
  /// waits.
  static constexpr std::size_t kSmallBytes = 128;
  static constexpr unsigned kFramesAlone = 32, kCallsPerReport = 64;

  bool in_burst_ = false;
  bool waited_ = false;  ///< a call brought nothing since the last frames
  unsigned frames_alone_ = 0;
  unsigned calls_ = 0;
};

}  // namespace weft::port

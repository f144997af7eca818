// The sending half of a reliable stream: which frame numbers may go out, which are acknowledged,
// when the oldest one goes out again, when to give up. It knows nothing of what the frames carry.
// Its owner takes numbers for its messages, asks before a frame goes out, tells when it did, hands
// on what the receiver says, and does what it gets for an answer. Sans-IO: time comes in as an
// argument. A plain value of its owner, under the owner's lock.
//
//        +----------+   long silence    +-----------+
//   ---->| kFlowing |------------------>| kProbeDue |   the oldest frame goes out once more
//        |          |<------------------|           |
//        +----------+    probe sent     +-----------+
//          ^      |                       |
//          |      | gap, time-out         | gap
//          |      v                       v
//          |    +---------------------------+   from the oldest frame on, everything goes out
//          +----| kResending                |   again, and once more after each long silence
//      progress +---------------------------+
//
// Beside that, the receiver or the port may have asked for a pause.
//
//   numbers:   unacked           sent            next
//    acknowledged | under way     | not sent yet  | not given to any message
#pragma once

#include <algorithm>
#include <cstdint>

#include "transport/ack_policy.h"
#include "transport/window.h"
#include "weft/types.h"

namespace weft::transport {

/// What the two ends agreed on, as codes of the specification. It may change while the stream
/// lives, so it comes in with each call that needs it.
struct StreamSettings {
  std::uint8_t timeout = 0;  ///< of an acknowledgement; 0: never
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry = 0;  ///< 7: for ever
};

class StreamSender {
 public:
  /// What the owner has to do.
  enum class Action : std::uint8_t {
    kNone,
    kGoBack,   ///< send everything from unacked() on again
    kTimeout,  ///< the same, after the time-out that the program named
    kGiveUp,   ///< the retries are used up
  };
  /// What the owner says of a frame that may ask for an acknowledgement.
  enum class Frame : std::uint8_t {
    kInside,      ///< more of the message follows
    kEnds,        ///< it ends a message
    kEndsWanted,  ///< it ends one whose acknowledgement somebody waits for
  };

  void start(Psn first, std::uint32_t mtu, const StreamSettings& settings);
  /// Nothing is under way any more, and nothing is due.
  void stop();
  /// Nothing that went out is waited for any more; what follows has numbers that never went out.
  void abandon();
  /// The owner gives up: no timer runs until something goes out again.
  void stop_timers() { ack_deadline_ = give_up_at_ = kNever; }

  Psn unacked() const { return unacked_; }
  Psn sent() const { return sent_; }
  bool all_acknowledged() const { return unacked_ == sent_; }
  bool waits_for_receiver() const { return receiver_wait_until_ != 0; }
  const Window& window() const { return window_; }
  std::uint8_t retries_left() const { return retries_left_; }

  // ---- frames go out ----

  /// Numbers for a message of so many frames; gives the first one.
  Psn take_numbers(std::uint32_t frames) {
    const Psn first = next_;
    next_ += frames;
    return first;
  }
  /// The number that the next message gets.
  Psn next() const { return next_; }
  /// False: nothing goes out yet, since the port or the receiver asked for a pause.
  bool may_send(Nanoseconds now) {
    if (now < busy_until_) return false;
    busy_until_ = 0;
    if (now < receiver_wait_until_) return false;
    receiver_wait_until_ = 0;
    return true;
  }
  /// Nothing asked for a pause, and nothing goes out for a second time.
  bool may_send_new(Nanoseconds now) const {
    return phase_ == Phase::kFlowing && !waits_for_receiver() && now >= busy_until_;
  }
  /// The window has room for so many frames from this number on. A request whose answer has more
  /// frames than the window goes out by itself.
  bool fits(Psn psn, std::uint32_t frames) const {
    return (psn + frames).distance_from(unacked_) <= std::max(window_.frames(), frames);
  }
  /// How many frames from this number on the window has room for.
  std::uint32_t room(Psn psn) const {
    return window_.frames() - std::min(window_.frames(), psn.distance_from(unacked_));
  }
  /// A window that is as large as windows get, and all but full, is left alone until it has room
  /// for many frames, up to `run`: they leave in one call. What makes room is on its way.
  bool waits_for_room(Psn psn, std::uint32_t frames_left, std::uint32_t run) const {
    const std::uint32_t frames = window_.frames(), under_way = psn.distance_from(unacked_);
    const std::uint32_t worth = std::min(run, frames / 8);
    return frames == window_.most() && under_way > frames - worth && under_way < frames &&
           frames_left >= worth && phase_ != Phase::kResending && awaits_acknowledgement();
  }
  /// Whether the frame asks for an acknowledgement.
  bool asks(Psn psn, Frame frame, Nanoseconds now);
  /// The frames before this number are answered by data, which acknowledges them.
  void on_data_asked(Psn behind) { ack_requests_.on_ask(behind); }
  /// The frames before this number went out.
  void on_sent(Psn behind, const StreamSettings& settings, Nanoseconds now) {
    if (sent_.before(behind)) sent_ = behind;
    if (ack_deadline_ == kNever) arm(settings, now);
  }
  /// True, once: the oldest frame is to go out once more, to hear what the receiver has. Then
  /// on_probe_sent(), or resend() if it cannot be sent by itself, or nothing.
  bool take_probe() {
    if (phase_ != Phase::kProbeDue) return false;
    phase_ = Phase::kFlowing;
    return !all_acknowledged();
  }
  void on_probe_sent();
  /// The owner sends everything from unacked() on again.
  void resend();
  /// The port took no more: frames that were built do not leave before `until`.
  void on_busy(Nanoseconds until) {
    busy_until_ = until;
    round_trip_ = RoundTrip::kUntimed;
  }

  // ---- what the receiver says ----

  /// An answer to this frame is of interest: it is under way.
  bool is_under_way(Psn psn) const {
    return psn.distance_from(unacked_) < sent_.distance_from(unacked_);
  }
  /// It has everything before this number, which lies in (unacked, sent].
  void on_progress(Psn upto, const StreamSettings& settings, Nanoseconds now);
  /// True, once: a probe was all that it had got, so what had left before the probe is lost. To be
  /// asked when an acknowledgement by itself made progress.
  bool only_probe_arrived();
  /// Frames were lost, there or on the way back.
  Action on_gap();
  /// It wants nothing for so long.
  Action on_receiver_not_ready(Nanoseconds wait_ns, const StreamSettings& settings,
                               Nanoseconds now);
  /// It saw marks of congestion.
  void on_mark(Nanoseconds now) { window_.on_mark(now); }

  // ---- time ----

  Action on_timer(const StreamSettings& settings, Nanoseconds now);
  /// When may_send() or on_timer() may next have something new to say.
  Nanoseconds next_deadline() const;
  /// An acknowledgement that was asked for is on its way, or will be once what is under way has
  /// arrived.
  bool awaits_acknowledgement() const { return ack_requests_.is_awaited(unacked_); }

 private:
  enum class Phase : std::uint8_t { kFlowing, kProbeDue, kResending };
  /// Of the frame `timed_`. kAmbiguous: since then the oldest frame went out once more.
  enum class RoundTrip : std::uint8_t { kUntimed, kTimed, kAmbiguous };

  static constexpr std::uint8_t kRetryForEver = 7;

  void arm(const StreamSettings& settings, Nanoseconds now);
  void reset_retries(const StreamSettings& settings) {
    retries_left_ = settings.retry_count;
    rnr_left_ = settings.rnr_retry;
  }

  Phase phase_ = Phase::kFlowing;
  RoundTrip round_trip_ = RoundTrip::kUntimed;
  std::uint8_t retries_left_ = 0;
  std::uint8_t rnr_left_ = 0;
  std::uint8_t probes_ = 0;  ///< since the last progress

  Psn next_, unacked_, sent_;
  Psn probed_, probed_behind_;  ///< what was under way when a probe went out; empty: none did
  Psn timed_;

  Nanoseconds timed_at_ = 0;
  Nanoseconds receiver_wait_until_ = 0;  ///< 0: it takes what comes
  Nanoseconds busy_until_ = 0;           ///< 0: so does the port
  Nanoseconds ack_deadline_ = kNever;    ///< silence until then calls for a probe or a time-out
  Nanoseconds give_up_at_ = kNever;      ///< the program's time-out

  AckRequests ack_requests_;
  /// Frames that may be under way; a read counts the frames of its answer.
  Window window_;
};

// Asked for each frame.
inline bool StreamSender::asks(Psn psn, Frame frame, Nanoseconds now) {
  const bool ends = frame != Frame::kInside;
  const bool repeated = phase_ == Phase::kResending || psn.before(sent_);
  const bool wanted =
      frame == Frame::kEndsWanted || (ends && (repeated || !window_.knows_round_trip()));
  const std::uint32_t window = window_.frames();
  const bool window_full = (psn + 1).distance_from(unacked_) >= window;
  if (!wanted && !window_full && !ack_requests_.should_ask(AckRequests::every(window), ends, now)) {
    return false;
  }
  ack_requests_.on_ask(psn + 1);
  if (round_trip_ == RoundTrip::kUntimed && !repeated) {
    round_trip_ = RoundTrip::kTimed;
    timed_ = psn;
    timed_at_ = now;
  }
  return true;
}

}  // namespace weft::transport

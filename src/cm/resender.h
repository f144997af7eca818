// A message that is sent again until it is answered, with longer and longer pauses and an end. Part
// of the state machine that owns it; no clock: the time comes with each call.
#pragma once

#include <algorithm>
#include <memory>

#include "cm/outcome.h"

namespace weft::cm {

class Resender {
 public:
  explicit Resender(const Timing& timing) : timing_(timing) {}

  void start(const Message& message, Nanoseconds now, Outcome& out) {
    message_ = std::make_shared<const Message>(message);
    sent_ = 0;
    pause_ns_ = timing_.first_retry_ns;
    send(now, out);
  }
  void stop() { message_.reset(), deadline_ = kNever; }
  /// The peer asks for patience (MRA). Once for each time that the message is sent: whoever asks
  /// again and again does not put off the end for ever.
  void wait_for(Nanoseconds extra_ns, Nanoseconds now) {
    if (message_ && !waits_longer_) deadline_ = now + extra_ns;
    waits_longer_ = true;
  }
  /// Once more at once: the peer asked again, so it lacks our answer.
  void repeat(Outcome& out) const {
    if (message_) out.messages.push_back(*message_);
  }

  Nanoseconds deadline() const { return deadline_; }
  const Timing& timing() const { return timing_; }
  /// After the deadline; false when the last retry had its time.
  bool on_timer(Nanoseconds now, Outcome& out) {
    if (sent_ > timing_.retries) return false;
    send(now, out);
    return true;
  }

 private:
  void send(Nanoseconds now, Outcome& out) {
    ++sent_;
    waits_longer_ = false;
    deadline_ = now + pause_ns_;
    pause_ns_ = std::min(2 * pause_ns_, timing_.last_retry_ns);
    out.messages.push_back(*message_);
  }

  Timing timing_;
  // Apart: once it is answered, a connection that lives for long does not carry its room.
  std::shared_ptr<const Message> message_;
  unsigned sent_ = 0;
  bool waits_longer_ = false;
  Nanoseconds pause_ns_ = 0;
  Nanoseconds deadline_ = kNever;
};

}  // namespace weft::cm

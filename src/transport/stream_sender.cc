#include "transport/stream_sender.h"

#include "transport/timing.h"

namespace weft::transport {

void StreamSender::start(Psn first, std::uint32_t mtu, const StreamSettings& settings) {
  *this = {};
  next_ = unacked_ = sent_ = first;
  ack_requests_.start(first);
  window_.start(mtu);
  reset_retries(settings);
}

void StreamSender::stop() {
  unacked_ = sent_;
  phase_ = Phase::kFlowing;
  probed_ = probed_behind_;
  busy_until_ = receiver_wait_until_ = 0;
  stop_timers();
}

void StreamSender::abandon() {
  stop();
  next_ = sent_;
  round_trip_ = RoundTrip::kUntimed;
  probes_ = 0;
}

void StreamSender::on_probe_sent() {
  ack_requests_.on_ask(unacked_ + 1);
  probed_ = unacked_;
  probed_behind_ = sent_;
  // An answer might be to either copy.
  if (round_trip_ == RoundTrip::kTimed) round_trip_ = RoundTrip::kAmbiguous;
}

void StreamSender::resend() {
  phase_ = Phase::kResending;
  probed_ = probed_behind_;
  round_trip_ = RoundTrip::kUntimed;  // an answer might be to either copy
}

void StreamSender::on_progress(Psn upto, const StreamSettings& settings, Nanoseconds now) {
  window_.on_acknowledged(upto.distance_from(unacked_), sent_.distance_from(unacked_), now);
  unacked_ = upto;
  phase_ = Phase::kFlowing;
  receiver_wait_until_ = 0;  // it took the frame for which it may have asked us to wait
  probes_ = 0;
  if (round_trip_ != RoundTrip::kUntimed && timed_.before(unacked_)) {
    if (round_trip_ == RoundTrip::kAmbiguous) {
      window_.on_late_answer(now - timed_at_);
    } else {
      window_.on_round_trip(now - timed_at_);
    }
    round_trip_ = RoundTrip::kUntimed;
  }
  reset_retries(settings);
  give_up_at_ = kNever;
  arm(settings, now);
}

bool StreamSender::only_probe_arrived() {
  if (probed_ == probed_behind_ || unacked_ == probed_) return false;
  const bool only = unacked_ == probed_ + 1 && unacked_.before(probed_behind_);
  probed_ = probed_behind_;
  return only;
}

StreamSender::Action StreamSender::on_gap() {
  // What follows the gap is on its way again already if this is not the first one to tell.
  if (phase_ == Phase::kResending) return Action::kNone;
  window_.on_loss();
  resend();
  return Action::kGoBack;
}

StreamSender::Action StreamSender::on_receiver_not_ready(Nanoseconds wait_ns,
                                                         const StreamSettings& settings,
                                                         Nanoseconds now) {
  if (waits_for_receiver()) return Action::kNone;  // a copy of what made us wait
  if (rnr_left_ == 0) return Action::kGiveUp;
  if (settings.rnr_retry != kRetryForEver) --rnr_left_;
  resend();
  phase_ = Phase::kFlowing;  // the wait, not the phase, keeps copies out
  receiver_wait_until_ = now + wait_ns;
  stop_timers();
  return Action::kGoBack;
}

StreamSender::Action StreamSender::on_timer(const StreamSettings& settings, Nanoseconds now) {
  if (now < ack_deadline_) return Action::kNone;
  ack_deadline_ = kNever;
  if (all_acknowledged()) return Action::kNone;
  if (now < give_up_at_) {
    // The last frames, or the word that some were lost, may be lost, or the peer's process sleeps:
    // the oldest frame goes out once more to find out, well before the program's time-out, which
    // alone decides when to give up.
    ack_requests_.on_probe(unacked_);
    probes_ = static_cast<std::uint8_t>(std::min(probes_ + 1, 255));
    arm(settings, now);
    if (phase_ != Phase::kResending) {
      phase_ = Phase::kProbeDue;
      return Action::kNone;
    }
    resend();  // what was sent again has been lost again, or what tells of it
    return Action::kGoBack;
  }
  give_up_at_ = kNever;
  if (retries_left_ == 0) return Action::kGiveUp;
  --retries_left_;
  window_.on_timeout();
  resend();
  return Action::kTimeout;
}

Nanoseconds StreamSender::next_deadline() const {
  const Nanoseconds wait = receiver_wait_until_ != 0 ? receiver_wait_until_ : kNever;
  const Nanoseconds busy = busy_until_ != 0 ? busy_until_ : kNever;
  return std::min({ack_deadline_, wait, busy});
}

void StreamSender::arm(const StreamSettings& settings, Nanoseconds now) {
  const Nanoseconds timeout = ack_timeout_ns(settings.timeout);
  if (timeout == kNever || all_acknowledged()) return stop_timers();
  if (give_up_at_ == kNever) give_up_at_ = now + timeout;
  const Nanoseconds early =
      std::min(window_.timeout_ns(probes_), asked_timeout_ns(settings.timeout));
  ack_deadline_ = std::min(now + early, give_up_at_);
}

}  // namespace weft::transport

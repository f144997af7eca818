// The two halves of a reliable stream by themselves: no queue pair, no operation, no bytes. First
// what each half decides, then both over a link that loses, doubles and reorders.
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "base/random.h"
#include "support/sanitized.h"
#include "transport/stream_receiver.h"
#include "transport/stream_sender.h"
#include "transport/timing.h"

namespace weft::transport {
namespace {

using Action = StreamSender::Action;
using Arrival = StreamReceiver::Arrival;
using Owed = StreamReceiver::Owed;

constexpr Psn kStreamPsn{0xFFFFFD};  // it wraps early
constexpr StreamSettings kSettings{.timeout = 16, .retry_count = 3, .rnr_retry = 2};
constexpr Nanoseconds kTimeout_ns = ack_timeout_ns(16);

// ---- the sender ------------------------------------------------------------------------------

class SenderOfStream : public testing::Test {
 protected:
  SenderOfStream() { sender.start(kStreamPsn, 4096, kSettings); }

  Psn at(std::uint32_t n) const { return kStreamPsn + n; }
  void send(std::uint32_t frames) {
    const Psn first = sender.take_numbers(frames);
    ASSERT_TRUE(sender.fits(first, frames));
    for (std::uint32_t i = 0; i < frames; ++i) {
      sender.asks(first + i,
                  i + 1 == frames ? StreamSender::Frame::kEndsWanted : StreamSender::Frame::kInside,
                  now);
      sender.on_sent(first + i + 1, kSettings, now);
    }
  }
  void progress(std::uint32_t upto) { sender.on_progress(at(upto), kSettings, now); }
  Action let_time_pass() {
    now = sender.next_deadline();
    return sender.on_timer(kSettings, now);
  }
  /// The round trip is known then, and probes come before the time-out.
  void learn_round_trip() {
    send(1);
    now += 20'000;
    progress(1);
  }

  StreamSender sender;
  Nanoseconds now = 1'000;
};

TEST_F(SenderOfStream, a_gap_calls_for_all_of_it_again_and_its_echoes_for_nothing) {
  // B2.1
  send(4);
  EXPECT_EQ(sender.on_gap(), Action::kGoBack);
  EXPECT_EQ(sender.on_gap(), Action::kNone) << "it is on its way again";
  EXPECT_EQ(sender.unacked(), at(0));
  EXPECT_FALSE(sender.may_send_new(now)) << "old frames first";
  progress(2);
  EXPECT_EQ(sender.on_gap(), Action::kGoBack) << "another one";
}

TEST_F(SenderOfStream, gives_up_after_its_retries_and_progress_gives_them_back) {
  // B2.1
  for (std::uint32_t n = 1; n <= 2; ++n) {
    send(1);
    const Nanoseconds begun = now;
    for (unsigned i = 1; i <= kSettings.retry_count; ++i) {
      Action action = Action::kNone;
      while (action != Action::kTimeout) {
        action = let_time_pass();
        ASSERT_NE(action, Action::kGiveUp);
        sender.on_sent(sender.sent(), kSettings, now);
      }
      EXPECT_EQ(now, begun + i * kTimeout_ns);
    }
    EXPECT_EQ(sender.retries_left(), 0);
    if (n == 2) break;
    progress(n);
    EXPECT_EQ(sender.retries_left(), kSettings.retry_count);
  }
  Action action = Action::kNone;
  while (action == Action::kNone || action == Action::kGoBack) action = let_time_pass();
  EXPECT_EQ(action, Action::kGiveUp);
  sender.stop();
  EXPECT_EQ(sender.next_deadline(), kNever);
}

TEST_F(SenderOfStream, probes_long_before_the_time_out_and_learns_from_the_answer) {
  // B2.1
  learn_round_trip();
  send(4);
  const Nanoseconds begun = now;
  EXPECT_EQ(let_time_pass(), Action::kNone);
  EXPECT_LT(now, begun + kTimeout_ns / 10);
  EXPECT_TRUE(sender.take_probe());
  EXPECT_FALSE(sender.take_probe()) << "once";
  sender.on_probe_sent();
  progress(2);
  EXPECT_TRUE(sender.only_probe_arrived()) << "three that left before it are lost";
  EXPECT_EQ(sender.on_gap(), Action::kGoBack);
  EXPECT_FALSE(sender.only_probe_arrived()) << "told once";
}

TEST_F(SenderOfStream, takes_a_probe_that_finds_more_for_good_news) {
  learn_round_trip();
  send(4);
  EXPECT_EQ(let_time_pass(), Action::kNone);
  EXPECT_TRUE(sender.take_probe());
  sender.on_probe_sent();
  progress(3);
  EXPECT_FALSE(sender.only_probe_arrived());
  progress(5);
  EXPECT_FALSE(sender.only_probe_arrived());
  EXPECT_TRUE(sender.all_acknowledged());
  EXPECT_EQ(sender.next_deadline(), kNever);
}

TEST_F(SenderOfStream, sends_nothing_until_the_receiver_s_wait_is_over) {
  // B2.1
  send(2);
  EXPECT_EQ(sender.on_receiver_not_ready(5'000, kSettings, now), Action::kGoBack);
  EXPECT_EQ(sender.next_deadline(), now + 5'000);
  EXPECT_FALSE(sender.may_send(now + 4'999));
  EXPECT_EQ(sender.on_receiver_not_ready(5'000, kSettings, now), Action::kNone) << "a copy";
  EXPECT_TRUE(sender.may_send(now + 5'000));
  EXPECT_EQ(sender.on_receiver_not_ready(5'000, kSettings, now), Action::kGoBack);
  EXPECT_TRUE(sender.may_send(now + 5'000));
  EXPECT_EQ(sender.on_receiver_not_ready(5'000, kSettings, now), Action::kGiveUp);
}

TEST_F(SenderOfStream, waits_for_a_receiver_for_ever_when_told_so) {
  StreamSettings settings = kSettings;
  settings.rnr_retry = 7;
  sender.start(kStreamPsn, 4096, settings);
  send(1);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(sender.on_receiver_not_ready(10, settings, now), Action::kGoBack);
    now += 10;
    ASSERT_TRUE(sender.may_send(now));
  }
}

TEST_F(SenderOfStream, ends_a_wait_of_the_receiver_when_it_hears_of_progress) {
  send(2);
  sender.on_receiver_not_ready(5'000, kSettings, now);
  progress(1);
  EXPECT_TRUE(sender.may_send(now));
}

// ---- the receiver ----------------------------------------------------------------------------

class ReceiverOfStream : public testing::Test {
 protected:
  ReceiverOfStream() { receiver.start(kStreamPsn); }

  Psn at(std::uint32_t n) const { return kStreamPsn + n; }
  Owed take() { return receiver.take_acknowledgement(3).kind; }

  StreamReceiver receiver;
};

TEST_F(ReceiverOfStream, tells_of_a_gap_once_until_the_missing_frame_comes) {
  // B2.1
  EXPECT_EQ(receiver.on_frame(at(1)), Arrival::kEarly);
  const auto nak = receiver.take_acknowledgement(3);
  EXPECT_EQ(nak.kind, Owed::kSequenceNak);
  EXPECT_EQ(nak.psn, at(0));
  EXPECT_EQ(nak.aeth.nak_code(), wire::NakCode::kPsnSequence);
  EXPECT_EQ(receiver.on_frame(at(2)), Arrival::kEarly);
  EXPECT_FALSE(receiver.owes());
  EXPECT_EQ(receiver.on_frame(at(0)), Arrival::kExpected);
  receiver.accept(true, false);
  EXPECT_FALSE(receiver.owes());
  EXPECT_EQ(receiver.on_frame(at(2)), Arrival::kEarly);
  EXPECT_EQ(take(), Owed::kSequenceNak);
}

TEST_F(ReceiverOfStream, acknowledges_what_it_was_about_to_ask_for) {
  receiver.on_frame(at(1));
  receiver.on_frame(at(0));
  receiver.accept(false, false);
  const auto ack = receiver.take_acknowledgement(3);
  EXPECT_EQ(ack.kind, Owed::kAck);
  EXPECT_EQ(ack.psn, at(0));
  EXPECT_EQ(ack.aeth.msn, 0u) << "the message goes on";
  EXPECT_EQ(take(), Owed::kNone);
}

TEST_F(ReceiverOfStream, acknowledges_copies_and_data_acknowledges_by_itself) {
  receiver.accept(true, true);
  EXPECT_EQ(take(), Owed::kAck);
  EXPECT_EQ(receiver.on_frame(at(0)), Arrival::kCopy);
  receiver.acknowledge_again();
  EXPECT_EQ(take(), Owed::kAck);
  receiver.accept(true, true);
  receiver.accept_for_data(5);
  EXPECT_FALSE(receiver.owes());
  EXPECT_EQ(receiver.expected(), at(7));
  EXPECT_EQ(receiver.msn(), 3u);
}

TEST_F(ReceiverOfStream, names_its_wait_when_it_defers) {
  EXPECT_EQ(receiver.on_frame(at(0)), Arrival::kExpected);
  receiver.defer();
  EXPECT_FALSE(receiver.owes_ack());
  const auto nak = receiver.take_acknowledgement(3);
  EXPECT_EQ(nak.aeth.kind(), wire::AethKind::kRnrNak);
  EXPECT_EQ(nak.aeth.rnr_timer_code(), 3);
  EXPECT_EQ(nak.psn, at(0));
  EXPECT_EQ(receiver.on_frame(at(1)), Arrival::kEarly);
  EXPECT_FALSE(receiver.owes()) << "the sender knows";
}

TEST_F(ReceiverOfStream, takes_nothing_behind_a_refusal) {
  receiver.refuse(wire::NakCode::kRemoteAccess);
  EXPECT_EQ(receiver.on_frame(at(0)), Arrival::kTooLate);
  EXPECT_FALSE(receiver.expects(at(0)));
  receiver.acknowledge_again();
  EXPECT_EQ(receiver.take_acknowledgement(3).aeth.nak_code(), wire::NakCode::kRemoteAccess);
}

TEST_F(ReceiverOfStream, tells_at_the_end_what_nobody_asked_for) {
  receiver.acknowledge_all();
  EXPECT_FALSE(receiver.owes());
  receiver.accept(true, false);
  receiver.acknowledge_all();
  EXPECT_EQ(take(), Owed::kAck);
  receiver.acknowledge_all();
  EXPECT_FALSE(receiver.owes()) << "told already";
}

TEST(AckDelay, is_tried_less_often_the_more_often_it_was_in_vain) {
  // B2.1
  AckDelay delay;
  for (const unsigned pause : {1u, 3u, 7u, 15u, 31u, 63u, 127u, 255u, 255u}) {
    ASSERT_TRUE(delay.delay());
    EXPECT_TRUE(delay.is_delayed());
    EXPECT_TRUE(delay.end());
    EXPECT_FALSE(delay.is_delayed());
    delay.learn(false);
    for (unsigned i = 0; i < pause; ++i) ASSERT_FALSE(delay.delay());
  }
  ASSERT_TRUE(delay.delay());
  EXPECT_TRUE(delay.end());
  delay.learn(true);
  EXPECT_TRUE(delay.delay()) << "one that was good";
}

// ---- both ------------------------------------------------------------------------------------

constexpr std::uint64_t kStreams = test::kSanitized ? 600 : 3000;
constexpr std::uint32_t kFrames = 400;

/// Numbers from a sender to a receiver, over a link drawn from a seed.
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed) : random_(seed) {
    sender_.start(first_, 4096, settings_);
    receiver_.start(first_);
  }

  void run() {
    for (int step = 0; step < 200'000 && !done(); ++step) {
      switch (random_.below(4)) {
        case 0:
          if (message_end_ == next_ && sent_frames() < kFrames) begin_message();
          break;
        case 1:
          send();
          break;
        case 2:
          arrive();
          break;
        default:
          answer();
      }
      now_ += random_.below(400);
      if (there_.empty() && back_.empty() && !receiver_.owes() && !can_send()) pass_time();
      if (testing::Test::HasFatalFailure()) return;
    }
    ASSERT_TRUE(done()) << "it never came to an end";
    EXPECT_EQ(accepted_, kFrames);
    EXPECT_EQ(receiver_.msn(), messages_);
  }

 private:
  struct Sent {
    Psn psn;
    bool asks;
  };

  std::uint32_t sent_frames() const { return message_end_.distance_from(first_); }
  bool done() const {
    return sent_frames() == kFrames && next_ == message_end_ && sender_.all_acknowledged();
  }
  bool can_send() {
    return next_ != message_end_ && sender_.may_send(now_) && sender_.fits(next_, 1);
  }
  void begin_message() {
    const auto frames = static_cast<std::uint32_t>(
        1 + random_.below(std::min<std::uint64_t>(12, kFrames - sent_frames())));
    ASSERT_EQ(sender_.take_numbers(frames), message_end_);
    message_end_ += frames;
    ends_[message_end_.distance_from(first_) - 1] = true;
    ++messages_;
  }
  void send() {
    if (sender_.may_send(now_) && sender_.take_probe()) {
      put(there_, {sender_.unacked(), true});
      return sender_.on_probe_sent();
    }
    if (!can_send()) return;
    const bool ends = ends_[next_.distance_from(first_)];
    const auto kind = !ends                   ? StreamSender::Frame::kInside
                      : random_.below(2) == 0 ? StreamSender::Frame::kEnds
                                              : StreamSender::Frame::kEndsWanted;
    put(there_, {next_, sender_.asks(next_, kind, now_)});
    ++next_;
    sender_.on_sent(next_, settings_, now_);
    EXPECT_LE(sender_.sent().distance_from(sender_.unacked()), sender_.window().most());
  }
  void arrive() {
    if (there_.empty()) return;
    const Sent frame = take(there_);
    switch (receiver_.on_frame(frame.psn)) {
      case Arrival::kExpected:
        // So seldom that the retries last.
        if (!deferred_ && random_.below(8) == 0) {
          deferred_ = true;
          return receiver_.defer();
        }
        deferred_ = false;
        ASSERT_EQ(frame.psn.distance_from(first_), accepted_) << "twice, or out of order";
        return receiver_.accept(ends_[accepted_++], frame.asks);
      case Arrival::kCopy:
        ASSERT_LT(frame.psn.distance_from(first_), accepted_);
        return receiver_.acknowledge_again();
      case Arrival::kEarly:
        ASSERT_GT(frame.psn.distance_from(first_), accepted_);
        return;
      case Arrival::kTooLate:
        FAIL() << "nothing was refused";
    }
  }
  void answer() {
    if (receiver_.owes() && random_.below(2) == 0) {
      return put(back_, receiver_.take_acknowledgement(1));
    }
    if (back_.empty()) return;
    const auto said = take(back_);
    if (!sender_.is_under_way(said.psn)) return;
    const Psn upto = said.kind == Owed::kAck ? said.psn + 1 : said.psn;
    ASSERT_LE(upto.distance_from(first_), accepted_) << "told of what did not arrive";
    if (upto != sender_.unacked()) {
      sender_.on_progress(upto, settings_, now_);
      if (next_.before(upto)) next_ = upto;
    }
    if (said.kind == Owed::kSequenceNak ||
        (said.kind == Owed::kAck && sender_.only_probe_arrived())) {
      act(sender_.on_gap());
    } else if (said.kind == Owed::kReceiverNotReady) {
      act(sender_.on_receiver_not_ready(rnr_timer_ns(1), settings_, now_));
    }
  }
  void act(Action action) {
    ASSERT_NE(action, Action::kGiveUp);
    if (action != Action::kNone) next_ = sender_.unacked();
  }
  void pass_time() {
    const Nanoseconds due = sender_.next_deadline();
    if (due == kNever) return;
    now_ = std::max(now_, due);
    act(sender_.on_timer(settings_, now_));
  }

  template <class T>
  void put(std::deque<T>& link, T frame) {
    // Never more than a few in a row: retries are counted, and bad luck must not run them out.
    if (lost_in_a_row_ < 4 && random_.chance_ppm(loss_ppm_)) {
      ++lost_in_a_row_;
      return;
    }
    lost_in_a_row_ = 0;
    if (random_.chance_ppm(copy_ppm_)) link.push_back(frame);
    link.push_back(frame);
  }
  template <class T>
  T take(std::deque<T>& link) {
    const std::size_t i = random_.below(std::min(link.size(), reach_));
    const T frame = link[i];
    link.erase(link.begin() + static_cast<std::ptrdiff_t>(i));
    return frame;
  }

  base::SeededRandom random_;
  const std::uint32_t loss_ppm_ = static_cast<std::uint32_t>(random_.below(150'000));
  const std::uint32_t copy_ppm_ = static_cast<std::uint32_t>(random_.below(200'000));
  const std::size_t reach_ = 1 + random_.below(8);
  const Psn first_{static_cast<std::uint32_t>(0xFFFFFF - random_.below(2 * kFrames))};
  const StreamSettings settings_{.timeout = 14, .retry_count = 7, .rnr_retry = 7};
  StreamSender sender_;
  StreamReceiver receiver_;
  Psn next_ = first_, message_end_ = first_;  ///< to be sent next; behind the last message
  std::vector<bool> ends_ = std::vector<bool>(kFrames);
  std::deque<Sent> there_;
  std::deque<StreamReceiver::Acknowledgement> back_;
  std::uint32_t accepted_ = 0, messages_ = 0;
  bool deferred_ = false;
  int lost_in_a_row_ = 0;
  Nanoseconds now_ = 1'000;
};

TEST(Stream, brings_each_frame_once_and_in_order_over_a_bad_link) {
  // B2.1
  for (std::uint64_t seed = 1; seed <= kStreams; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomStream(seed).run();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace weft::transport

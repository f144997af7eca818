// The unreliable connection: messages whole or not at all, and the next one is none the worse.
#include <gtest/gtest.h>

#include "memory/flight.h"
#include "support/transport_end.h"

namespace weft::test {
namespace {

using obs::Counter;
using enum wire::Opcode;

constexpr std::uint32_t kMtu = 256;
constexpr Psn kFirst{0xFFFFFE};

EndSetup uc_setup() {
  EndSetup setup;
  setup.service = Service::kUnreliableConnection;
  setup.attributes.path_mtu = Mtu::k256;
  setup.attributes.receive_psn = setup.attributes.send_psn = kFirst;
  return setup;
}

class Uc : public testing::Test {
 protected:
  Uc() {
    transport::start(requester, end.qp);
    transport::start(responder, end.qp);
    fill_pattern(data, 9);
  }

  void deliver(wire::Opcode opcode, std::uint32_t at, std::size_t n, std::uint32_t length = 0) {
    wire::Packet packet = headers_of(opcode, kFirst + at);
    packet.reth = {remote.address, remote.key, length};
    packet.immediate = 0x77;
    const Frame frame = forge(packet, std::span(data).first(n));
    transport::on_request(responder, end.qp, frame.packet(), now_ns);
  }
  std::vector<Frame> requests() {
    std::vector<Frame> frames;
    network::OutFrame out;
    while (transport::next_request(requester, end.qp, end.scheduler.time_ns, out)) {
      frames.push_back(to_frame(out));
      out.release();
      memory::Flight::release_kept();
    }
    return frames;
  }
  std::vector<std::byte> sent(std::size_t n) {
    return {data.begin(), data.begin() + static_cast<std::ptrdiff_t>(n)};
  }
  std::vector<std::byte> exposed(std::size_t n) { return end.copy_of(end.exposed_at(), n); }

  QueueEnd end{uc_setup()};
  RemoteAddress remote = end.remote();
  transport::UcRequester requester;
  transport::UcResponder responder;
  std::vector<std::byte> data = std::vector<std::byte>(1024);
  Nanoseconds now_ns = 1'000'000'000;
};

TEST_F(Uc, receives_a_message_of_several_frames) {
  end.post_receive(1, 0, 1024);
  deliver(kUcSendFirst, 0, kMtu);
  deliver(kUcSendMiddle, 1, kMtu);
  deliver(kUcSendLastWithImmediate, 2, 5);
  const auto done = end.take_receives();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(done[0].ok());
  EXPECT_EQ(done[0].byte_count, 2 * kMtu + 5);
  EXPECT_EQ(done[0].immediate, 0x77u);
  EXPECT_EQ(end.copy_of(kMtu, kMtu), sent(kMtu));
}

TEST_F(Uc, drops_a_message_that_lost_a_frame_and_keeps_its_buffer) {
  end.post_receive(1, 0, 1024);
  end.post_receive(2, 2048, 1024);
  deliver(kUcSendFirst, 0, kMtu);
  deliver(kUcSendLast, 2, 5);
  EXPECT_TRUE(end.take_receives().empty());
  EXPECT_EQ(end.counted(Counter::kDroppedMessages), 1u);
  deliver(kUcSendOnly, 3, 50);
  const auto done = end.take_receives();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].wr_id, 1u) << "the buffer of the dropped message serves the next one";
  EXPECT_EQ(done[0].byte_count, 50u);
  EXPECT_EQ(end.qp.rq->posted(), 1u);
  EXPECT_EQ(end.state(), QpState::kReadyToSend);
}

TEST_F(Uc, drops_both_messages_when_a_last_and_the_next_first_are_lost) {
  end.post_receive(1, 0, 1024);
  deliver(kUcSendFirst, 0, kMtu);
  deliver(kUcSendMiddle, 3, kMtu);
  deliver(kUcSendLast, 4, 5);
  EXPECT_TRUE(end.take_receives().empty()) << "two halves were made into one";
  deliver(kUcSendOnly, 5, 5);
  EXPECT_EQ(end.take_receives().size(), 1u);
}

TEST_F(Uc, drops_what_has_no_beginning) {
  end.post_receive(1, 0, 1024);
  deliver(kUcSendMiddle, 0, kMtu);
  deliver(kUcSendLast, 1, 5);
  deliver(kUcWriteLast, 2, 5);
  EXPECT_TRUE(end.take_receives().empty());
  EXPECT_EQ(end.qp.rq->posted(), 1u);
}

TEST_F(Uc, begins_anew_with_a_first_inside_a_message) {
  end.post_receive(1, 0, 1024);
  deliver(kUcSendFirst, 0, kMtu);
  deliver(kUcSendFirst, 1, kMtu);
  deliver(kUcSendLast, 2, 1);
  const auto done = end.take_receives();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].byte_count, kMtu + 1);
}

TEST_F(Uc, does_not_mix_a_send_and_a_write) {
  end.post_receive(1, 0, 1024);
  deliver(kUcSendFirst, 0, kMtu);
  deliver(kUcWriteMiddle, 1, kMtu);
  deliver(kUcSendLast, 2, 5);
  EXPECT_TRUE(end.take_receives().empty());
  EXPECT_EQ(exposed(kMtu), std::vector(kMtu, std::byte{0xEE}));
}

TEST_F(Uc, drops_frames_of_a_wrong_length) {
  end.post_receive(1, 0, 1024);
  deliver(kUcSendFirst, 0, kMtu - 1);
  deliver(kUcSendLast, 1, 5);
  deliver(kUcSendFirst, 2, kMtu);
  deliver(kUcSendMiddle, 3, kMtu + 4);
  deliver(kUcSendLast, 4, 5);
  deliver(kUcSendFirst, 5, kMtu);
  deliver(kUcSendLast, 6, 0);
  deliver(kUcSendOnly, 7, kMtu + 1);
  EXPECT_TRUE(end.take_receives().empty());
  deliver(kUcSendOnly, 8, kMtu);
  EXPECT_EQ(end.take_receives().size(), 1u);
}

TEST_F(Uc, drops_a_message_for_which_there_is_no_buffer) {
  deliver(kUcSendFirst, 0, kMtu);
  end.post_receive(1, 0, 1024);
  deliver(kUcSendLast, 1, 5);
  EXPECT_TRUE(end.take_receives().empty());
  deliver(kUcSendOnly, 2, 5);
  EXPECT_EQ(end.take_receives().size(), 1u);
}

TEST_F(Uc, reports_a_buffer_that_is_too_small_and_goes_on) {
  end.post_receive(1, 0, 100);
  end.post_receive(2, 1024, 1024);
  deliver(kUcSendFirst, 0, kMtu);
  deliver(kUcSendLast, 1, 5);
  deliver(kUcSendOnly, 2, 5);
  const auto done = end.take_receives();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].status, CompletionStatus::kLocalLengthError);
  EXPECT_TRUE(done[1].ok());
  EXPECT_EQ(end.memory()[100], std::byte{0xEE});
}

TEST_F(Uc, refuses_a_message_longer_than_2_31) {
  // The list has room for more; its second element would be refused for another reason.
  const Sge list[] = {end.sge(0, kMtu), Sge{end.address(), 0xFFFFFFFF, LocalKey(0x999)}};
  ASSERT_TRUE(end.qp.rq->post({1, list}));
  deliver(kUcSendFirst, 0, kMtu);
  responder.offset = 1u << 31;  // as if so much had come
  deliver(kUcSendLast, 1, 5);
  const auto done = end.take_receives();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kLocalLengthError);
}

TEST_F(Uc, writes_and_tells_with_an_immediate) {
  end.post_receive(1, 0, 0);
  deliver(kUcWriteFirst, 0, kMtu, kMtu + 9);
  deliver(kUcWriteLastWithImmediate, 1, 9);
  EXPECT_EQ(exposed(kMtu), sent(kMtu));
  const auto done = end.take_receives();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].op, CompletionOp::kReceiveWriteImmediate);
  EXPECT_EQ(done[0].byte_count, kMtu + 9);
}

TEST_F(Uc, drops_a_write_that_is_not_as_long_as_announced) {
  end.post_receive(1, 0, 0);
  deliver(kUcWriteFirst, 0, kMtu, kMtu + 9);
  deliver(kUcWriteLastWithImmediate, 1, 8);
  deliver(kUcWriteFirst, 2, kMtu, kMtu);
  deliver(kUcWriteOnlyWithImmediate, 3, 8, 9);
  deliver(kUcWriteOnlyWithImmediate, 4, 8, 0x80000001);
  EXPECT_TRUE(end.take_receives().empty());
}

TEST_F(Uc, refuses_a_write_outside_before_its_first_byte_and_lives_on) {
  // B4.9
  const auto before = end.copy_of(0, end.memory().size());
  remote = end.remote(end.exposed_bytes() - kMtu);
  deliver(kUcWriteFirst, 0, kMtu, kMtu + 1);
  deliver(kUcWriteLast, 1, 1);
  remote = {end.remote().address, RemoteKey(end.exposed.rkey.value ^ 1)};
  deliver(kUcWriteOnly, 2, 8, 8);
  EXPECT_EQ(end.copy_of(0, before.size()), before);
  EXPECT_EQ(end.counted(Counter::kRefusedAccesses), 2u);
  EXPECT_EQ(end.state(), QpState::kReadyToSend);
  remote = end.remote();
  deliver(kUcWriteOnly, 3, 8, 8);
  EXPECT_EQ(exposed(8), sent(8));
}

/// A stranger who tries one key after the other, from a place of its own in the sequence.
class GuessedUc : public Uc {
 protected:
  static constexpr std::uint32_t kFarAway = 0x100000;
  void guess(std::uint32_t at = kFarAway) {
    const RemoteAddress right = remote;
    remote.key = RemoteKey(end.exposed.rkey.value + 0x1000 + ++guesses_);
    deliver(kUcWriteOnly, at, 8, 8);
    remote = right;
  }
  std::uint64_t looked_at() { return end.counted(Counter::kRefusedAccesses); }
  std::uint64_t not_looked_at() { return end.counted(Counter::kLimitedAccesses); }

 private:
  std::uint32_t guesses_ = 0;
};

TEST_F(GuessedUc, looks_at_so_many_wrong_keys_a_second_and_no_more) {
  // B4.9
  for (int i = 0; i < 1000; ++i) guess();
  EXPECT_EQ(looked_at(), 64u);
  EXPECT_EQ(not_looked_at(), 936u);
  constexpr Nanoseconds kTenMinutes = 600'000'000'000;
  const Nanoseconds end_ns = now_ns + kTenMinutes;
  for (; now_ns < end_ns; now_ns += 1'000'000) guess();
  EXPECT_NEAR(static_cast<double>(looked_at()), 64.0 * 601, 64);
  now_ns += kTenMinutes;  // what nobody used is not saved up
  const std::uint64_t before = looked_at();
  for (int i = 0; i < 1000; ++i) guess();
  EXPECT_EQ(looked_at(), before + 64);
  EXPECT_EQ(end.state(), QpState::kReadyToSend);
}

TEST_F(GuessedUc, a_right_key_is_not_looked_at_either_when_it_comes_from_nowhere) {
  for (int i = 0; i < 1000; ++i) guess();
  const auto before = exposed(8);
  deliver(kUcWriteOnly, kFarAway, 8, 8);
  EXPECT_EQ(exposed(8), before);
  now_ns += 1'000'000'000;
  deliver(kUcWriteOnly, kFarAway, 8, 8);
  EXPECT_EQ(exposed(8), sent(8));
}

TEST_F(GuessedUc, a_peer_in_step_goes_on_while_a_stranger_guesses) {
  end.post_receive(1, 0, 1024);
  deliver(kUcWriteOnly, 0, 4, 4);
  for (int i = 0; i < 1000; ++i) guess(kFarAway + static_cast<std::uint32_t>(i));
  deliver(kUcWriteFirst, 1, kMtu, 2 * kMtu);
  for (int i = 0; i < 10; ++i) guess();  // in the middle of its message
  deliver(kUcWriteLast, 2, kMtu);
  EXPECT_EQ(exposed(kMtu), sent(kMtu));
  deliver(kUcSendOnly, 3, 8);
  EXPECT_EQ(end.take_receives().size(), 1u);
  data[0] ^= std::byte{1};
  deliver(kUcWriteOnly, 40, 8, 8);  // some are lost
  EXPECT_EQ(exposed(8), sent(8));
}

TEST_F(Uc, serves_one_write_with_a_one_shot_key) {
  // B4.10
  const auto once = end.expose(Access::kLocalWrite | kAllRemote | Access::kOneShot);
  remote.key = once.rkey;
  deliver(kUcWriteFirst, 0, kMtu, 2 * kMtu);
  deliver(kUcWriteLast, 1, kMtu);
  EXPECT_EQ(end.counted(Counter::kRefusedAccesses), 0u);
  deliver(kUcWriteOnly, 2, 4, 4);
  EXPECT_EQ(end.counted(Counter::kRefusedAccesses), 1u);
}

TEST_F(Uc, gives_back_a_kept_buffer_as_flushed_when_it_stops) {
  end.post_receive(1, 0, 1024);
  deliver(kUcSendFirst, 0, kMtu);
  deliver(kUcSendLast, 2, 5);
  end.qp.state = QpState::kError;
  transport::stop(responder, end.qp);
  const auto done = end.take_receives();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kFlushed);
}

TEST_F(Uc, completes_a_send_when_the_port_took_its_last_frame) {
  const Sge one = end.sge(0, 2 * kMtu + 1);
  ASSERT_TRUE(end.post_send({.wr_id = 1, .sges = {&one, 1}}));
  network::OutFrame out;
  ASSERT_TRUE(transport::next_request(requester, end.qp, 0, out));
  out.release();
  memory::Flight::release_kept();
  transport::on_sent(requester, end.qp);
  EXPECT_TRUE(end.take_sends().empty());
  const auto frames = requests();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].opcode(), kUcSendMiddle);
  EXPECT_EQ(frames[1].opcode(), kUcSendLast);
  EXPECT_EQ(frames[1].psn(), kFirst + 2);
  EXPECT_TRUE(end.take_sends().empty());
  transport::on_sent(requester, end.qp);
  EXPECT_EQ(end.take_sends().size(), 1u);
}

TEST_F(Uc, stops_its_send_queue_at_a_bad_buffer_and_still_receives) {
  const Sge good = end.sge(0, 10);
  const Sge bad{end.address(), 10, LocalKey(0x999)};
  ASSERT_TRUE(end.post_send({.wr_id = 1, .sges = {&good, 1}}));
  ASSERT_TRUE(end.post_send({.wr_id = 2, .sges = {&bad, 1}}));
  ASSERT_TRUE(end.post_send({.wr_id = 3, .sges = {&good, 1}}));
  EXPECT_EQ(requests().size(), 1u);
  transport::on_sent(requester, end.qp);
  EXPECT_EQ(end.state(), QpState::kSendQueueError);
  transport::stop(requester, end.qp);
  queue::flush(end.qp);
  const auto done = end.take_sends();
  ASSERT_EQ(done.size(), 3u);
  EXPECT_TRUE(done[0].ok());
  EXPECT_EQ(done[1].status, CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(done[2].status, CompletionStatus::kFlushed);
  end.post_receive(1, 0, 64);
  deliver(kUcSendOnly, 0, 5);
  EXPECT_EQ(end.take_receives().size(), 1u);
}

TEST_F(Uc, holds_the_queue_for_a_delay_and_runs_local_work_in_its_turn) {
  // B1.5
  const auto once = end.expose(Access::kLocalWrite | kAllRemote | Access::kOneShot);
  const Sge one = end.sge(0, 10);
  ASSERT_TRUE(end.post_send({.wr_id = 1, .sges = {&one, 1}}));
  ASSERT_TRUE(end.post_send({.wr_id = 2, .op = SendOp::kDelay, .delay_ns = 500}));
  ASSERT_TRUE(
      end.post_send({.wr_id = 3, .op = SendOp::kLocalInvalidate, .invalidate_key = once.rkey}));
  ASSERT_TRUE(end.post_send({.wr_id = 4, .sges = {&one, 1}}));
  EXPECT_EQ(requests().size(), 1u);
  transport::on_sent(requester, end.qp);
  EXPECT_TRUE(requests().empty());
  EXPECT_EQ(requester.delay_until, end.scheduler.time_ns + 500);
  end.scheduler.time_ns += 500;
  EXPECT_EQ(requests().size(), 1u);
  transport::on_sent(requester, end.qp);
  const auto done = end.take_sends();
  ASSERT_EQ(done.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(done[i].wr_id, i + 1);
}

}  // namespace
}  // namespace weft::test

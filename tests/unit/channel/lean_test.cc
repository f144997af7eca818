// What a quiet connection does without, and how it comes back to it.
#include <gtest/gtest.h>

#include <deque>
#include <memory>

#include "channel/dormant.h"
#include "unit/channel/simulated_pair.h"

namespace weft::channel::test {
namespace {

constexpr std::uint32_t kDepth = 16;

class Lean : public ::testing::Test {
 protected:
  using End = SimulatedPair::End;

  void rest() {
    pair.settle(3);
    for (End* end : {&pair.here, &pair.there}) end->endpoint.set_mode(Mode::kAsleep);
    pair.settle(3);
  }
  void watch() {
    for (End* end : {&pair.here, &pair.there}) end->endpoint.set_mode(Mode::kWatching);
    pair.settle(3);
  }
  /// The endpoint is taken apart, and another one goes on with what was left of it.
  void sleep_and_wake(End& end) {
    const Ring ring = end.endpoint.receive().ring();
    const Dormant dormant = end.endpoint.sleep();
    const std::uint32_t channel = end.endpoint.channel();
    std::destroy_at(&end.endpoint);
    std::construct_at(&end.endpoint, settings, end.wires, end.parts(settings), kDepth, channel);
    end.endpoint.wake(dormant, ring);
  }

  static Settings tiny() {
    Settings settings = Settings::tiny();
    settings.shrink_after_ns = 150'000'000;
    return settings;
  }
  const Settings settings = tiny();
  SimulatedPair pair{settings, kDepth};
};

TEST_F(Lean, a_send_ring_is_there_only_while_it_is_used) {
  const std::size_t quiet = pair.here.wires.live_bytes;
  EXPECT_EQ(quiet, 2 * slot_bytes_of(100));  // only the receive ring
  watch();
  ASSERT_EQ(pair.send("hello"), 5u);
  EXPECT_EQ(pair.here.wires.live_bytes, 2 * quiet);
  pair.settle(1);
  ASSERT_EQ(pair.receive(), "hello");
  rest();
  EXPECT_EQ(pair.here.wires.live_bytes, quiet);
  EXPECT_EQ(pair.violation(), "");
}

TEST_F(Lean, a_send_ring_stays_until_its_last_frame_has_left) {
  watch();
  ASSERT_EQ(pair.send("hello"), 5u);
  const std::size_t busy = pair.here.wires.live_bytes;
  pair.here.endpoint.set_mode(Mode::kAsleep);
  EXPECT_EQ(pair.here.wires.live_bytes, busy);
  pair.settle(3);
  EXPECT_LT(pair.here.wires.live_bytes, busy);
  EXPECT_EQ(pair.receive(), "hello");
}

TEST_F(Lean, without_memory_for_a_send_ring_a_message_waits) {
  pair.here.wires.refuse_next = 1;
  pair.here.wires.refuse_from_phase = 0;
  EXPECT_EQ(pair.send("hello"), 0u);
  EXPECT_EQ(pair.send("hello"), 5u);
  pair.settle(2);
  EXPECT_EQ(pair.receive(), "hello");
}

TEST_F(Lean, what_is_under_way_does_not_sleep) {
  rest();
  EXPECT_TRUE(pair.here.endpoint.can_be_dormant());
  EXPECT_TRUE(pair.there.endpoint.can_be_dormant());
  ASSERT_EQ(pair.send("hello"), 5u);
  EXPECT_FALSE(pair.here.endpoint.can_be_dormant());
  pair.settle(2);
  EXPECT_FALSE(pair.there.endpoint.can_be_dormant());  // there is something to receive
  ASSERT_EQ(pair.receive(), "hello");
  rest();
  EXPECT_TRUE(pair.here.endpoint.can_be_dormant());
  EXPECT_TRUE(pair.there.endpoint.can_be_dormant());
}

TEST_F(Lean, figures_outlive_sleep) {
  for (int i = 0; i < 3; ++i) {
    watch();
    ASSERT_EQ(pair.send("hello"), 5u);
    pair.settle(2);
    ASSERT_EQ(pair.receive(), "hello");
    rest();
    ASSERT_TRUE(pair.here.endpoint.can_be_dormant());
    sleep_and_wake(pair.here);
  }
  EXPECT_EQ(pair.here.endpoint.send().figures().messages, 3u);
  EXPECT_EQ(pair.here.endpoint.send().figures().bytes, 15u);
}

TEST_F(Lean, what_is_not_usual_outlives_sleep_too) {
  const auto comes_back = [](const DormantRest& rest) {
    Dormant dormant;
    dormant.next = 7, dormant.scan = 9;
    dormant.keep(rest);
    return dormant.rest() == rest;
  };
  DormantRest usual;
  usual.sent.messages = 3, usual.sent.bytes = 15, usual.sent.frames = 7;
  usual.received.messages = 9, usual.received.bytes = 80, usual.received.frames = 9;
  EXPECT_TRUE(comes_back(usual));
  DormantRest much = usual;
  much.sent.bytes = std::uint64_t{5} << 32;
  EXPECT_TRUE(comes_back(much));
  much = usual;
  much.received.bytes = std::uint64_t{5} << 32, much.bells = std::uint64_t{1} << 40;
  EXPECT_TRUE(comes_back(much));
  DormantRest rare = usual;
  rare.sent.grows = 1;
  EXPECT_TRUE(comes_back(rare));
  rare = usual;
  rare.history = 1, rare.no_growth_until = 5, rare.offers = 2, rare.left = 3;
  EXPECT_TRUE(comes_back(rare));
}

// Messages of both kinds in both directions, with naps wherever they are allowed: nothing is lost,
// doubled or reordered, and no write meets memory that is gone.
TEST_F(Lean, messages_go_on_after_sleep_as_before_it) {
  // A18: what makes a quiet connection small changes nothing for its messages.
  std::mt19937 random(6);
  std::deque<std::string> expected[2];
  std::string rest_of[2];
  End* const ends[2] = {&pair.here, &pair.there};
  int naps = 0, received = 0;
  for (int i = 0; i < 60'000; ++i) {
    const unsigned side = random() % 2;
    switch (random() % 6) {
      case 0:
      case 1: {
        const bool busy = i / 100 % 2 == 0;
        if (busy && rest_of[side].empty() && expected[side].size() < 4) {
          const std::size_t bytes = random() % 400 == 0 ? 3000 : 1 + random() % 150;
          rest_of[side] = std::string(bytes, static_cast<char>('a' + i % 26));
          expected[side].push_back(rest_of[side]);
        }
        if (rest_of[side].empty()) break;
        const std::uint64_t taken = SimulatedPair::take(*ends[side], rest_of[side], pair.now);
        rest_of[side].erase(0, taken);
        break;
      }
      case 2:
        if (const auto text = SimulatedPair::receive(*ends[side])) {
          ASSERT_FALSE(expected[1 - side].empty());
          ASSERT_EQ(*text, expected[1 - side].front());
          expected[1 - side].pop_front();
          ++received;
        }
        break;
      case 3:
        ends[side]->endpoint.set_mode(random() % 2 == 0 ? Mode::kWatching : Mode::kAsleep);
        if (ends[side]->endpoint.unnotified()) ends[side]->endpoint.notify();
        break;
      case 4:
        pair.now += 100'000'000;
        pair.settle(2);
        break;
      default:
        if (!ends[side]->endpoint.can_be_dormant()) break;
        if (ends[side]->endpoint.receive().phase() != 0) break;
        sleep_and_wake(*ends[side]);
        ++naps;
    }
    ASSERT_EQ(pair.violation(), "");
    ASSERT_EQ(pair.here.endpoint.error(), "");
    ASSERT_EQ(pair.there.endpoint.error(), "");
  }
  EXPECT_GT(naps, 300);
  EXPECT_GT(received, 2000);
  EXPECT_GT(pair.here.endpoint.send().figures().shrinks, 0u);
}

}  // namespace
}  // namespace weft::channel::test

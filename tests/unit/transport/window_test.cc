#include "transport/window.h"

#include <gtest/gtest.h>

namespace weft::transport {
namespace {

constexpr Nanoseconds kNow = 1'000;

Window started(std::uint32_t mtu) {
  Window window;
  window.start(mtu);
  return window;
}

TEST(Window, begins_with_what_a_usual_receive_buffer_holds) {
  EXPECT_EQ(started(4096).frames() * 4096, Window::kFirstBytes);
  EXPECT_EQ(started(1024).frames() * 1024, Window::kFirstBytes);
  EXPECT_EQ(started(256).frames(), Window::kMostFirstFrames);
}

TEST(Window, doubles_per_round_trip_until_the_most) {
  Window window = started(4096);
  const std::uint32_t first = window.frames();
  window.on_acknowledged(first, first, kNow);
  EXPECT_EQ(window.frames(), 2 * first);
  for (int i = 0; i < 20; ++i) window.on_acknowledged(window.frames(), window.frames(), kNow);
  EXPECT_EQ(window.frames(), window.most());
  EXPECT_EQ(window.frames() * 4096, Window::kMostBytes);
}

TEST(Window, does_not_grow_while_the_program_sends_little) {
  Window window = started(4096);
  const std::uint32_t first = window.frames();
  for (int i = 0; i < 1000; ++i) window.on_acknowledged(1, 2, kNow);
  EXPECT_EQ(window.frames(), first);
}

TEST(Window, shrinks_a_little_after_a_loss_while_no_queue_has_formed) {
  Window window = started(1024);
  const std::uint32_t before = window.frames();
  for (int i = 0; i < 10; ++i) window.on_round_trip(100'000);
  window.on_loss();
  EXPECT_EQ(window.frames(), before * 8 / 10);
}

TEST(Window, keeps_what_a_quick_way_needs_when_losses_are_rare_and_no_queue_has_formed) {
  // B2.1
  Window window = started(1024);
  window.on_round_trip(100'000);
  for (int i = 0; i < 50; ++i) {
    window.on_acknowledged(Window::kFramesByChance, 1, kNow);
    window.on_loss();
  }
  EXPECT_EQ(window.frames() * 1024, Window::kMuchBytes / 4);
  for (int i = 0; i < 50; ++i) {
    window.on_acknowledged(Window::kFramesByChance - 1, 1, kNow);
    window.on_loss();
  }
  EXPECT_EQ(window.frames(), Window::kFewestFrames) << "too many for chance";
}

TEST(Window, shrinks_to_half_when_a_queue_ran_full_and_then_grows_by_a_step_per_round_trip) {
  Window window = started(1024);
  const std::uint32_t before = window.frames();
  window.on_round_trip(100'000);
  for (int i = 0; i < 50; ++i) window.on_round_trip(800'000);
  window.on_loss();
  const std::uint32_t after = window.frames();
  EXPECT_EQ(after, before / 2);
  for (std::uint32_t i = 0; i < after; ++i) window.on_acknowledged(1, after, kNow);
  EXPECT_GT(window.frames(), after);
  EXPECT_LE(window.frames(), after + Window::kStepBytes / 1024);
}

TEST(Window, shrinks_when_every_answer_takes_long_and_not_when_some_do) {
  Window window = started(1024);
  const std::uint32_t before = window.frames();
  window.on_round_trip(100'000);
  for (std::uint32_t i = 0; i < 10 * Window::kRoundsPerLook; ++i) {
    window.on_round_trip(i % 3 == 0 ? 200'000 : 8'000'000);
  }
  EXPECT_EQ(window.frames(), before) << "a process that lost its core now and then";
  for (std::uint32_t i = 0; i < 2 * Window::kRoundsPerLook; ++i) window.on_round_trip(3'000'000);
  EXPECT_LT(window.frames(), before * 3 / 4);
}

TEST(Window, gives_way_to_a_delay_that_a_smaller_one_takes_for_fine) {
  // B2.1
  Window small = started(1024), large = started(1024);
  large.on_acknowledged(large.frames(), large.frames(), kNow);
  large.on_acknowledged(large.frames(), large.frames(), kNow);
  const std::uint32_t before = small.frames();
  ASSERT_EQ(large.frames(), 4 * before);
  for (Window* window : {&small, &large}) {
    window->on_round_trip(100'000);
    for (std::uint32_t i = 0; i < 2 * Window::kRoundsPerLook; ++i) window->on_round_trip(1'800'000);
  }
  EXPECT_EQ(small.frames(), before);
  EXPECT_LT(large.frames(), 3 * before);
}

TEST(Window, shrinks_soon_when_answers_take_far_too_long) {
  Window window = started(1024);
  const std::uint32_t before = window.frames();
  window.on_round_trip(100'000);
  for (std::uint32_t i = 1; i < Window::kRoundsPerLook; ++i) window.on_round_trip(1'000'000);
  EXPECT_EQ(window.frames(), before);
  for (std::uint32_t i = 0; i < Window::kRoundsPerQuickLook; ++i) window.on_round_trip(20'000'000);
  EXPECT_LE(window.frames(), before / 2 + 1);
}

TEST(Window, has_hardly_anything_under_way_for_a_moment_when_all_others_have) {
  // B2.1
  Window window = started(1024);
  const Nanoseconds when = 7 * Window::kBetweenDrains_ns;
  window.on_acknowledged(1, 100, when - 1'000);
  window.on_round_trip(3'000'000);
  const std::uint32_t before = window.frames();
  window.on_acknowledged(1, 100, when - 1);
  EXPECT_GE(window.frames(), before);
  window.on_acknowledged(1, 100, when);
  EXPECT_EQ(window.frames(), Window::kDrainedFrames);
  const Nanoseconds timeout = window.timeout_ns(0);
  for (int i = 0; i < 100; ++i) window.on_round_trip(50'000);
  EXPECT_EQ(window.timeout_ns(0), timeout) << "answers are not always so quick";
  window.on_acknowledged(2, 2, when + 7'000'000);
  EXPECT_GE(window.frames(), before);
}

TEST(Window, loses_what_it_had_before_to_a_loss_and_not_to_such_a_moment) {
  Window window = started(1024);
  window.on_acknowledged(1, 100, 1);
  window.on_round_trip(3'000'000);
  const std::uint32_t before = window.frames();
  window.on_acknowledged(1, 100, Window::kBetweenDrains_ns);
  ASSERT_EQ(window.frames(), Window::kDrainedFrames);
  window.on_loss();
  EXPECT_GE(window.frames(), before / 2);
}

TEST(Window, makes_two_streams_through_one_queue_alike) {
  // B2.1
  Window a = started(1024), b = started(1024);
  for (int i = 0; i < 3; ++i) a.on_acknowledged(a.frames(), a.frames(), kNow);
  ASSERT_GT(a.frames(), 3 * b.frames());
  std::uint64_t carried_a = 0, carried_b = 0;
  // A link of 1 Gbit/s, a round trip of 100 us, and a queue without an end.
  for (int round = 0; round < 2000; ++round) {
    const Nanoseconds took = 100'000 + (a.frames() + b.frames()) * Nanoseconds{8'600};
    if (round > 1000) carried_a += a.frames(), carried_b += b.frames();
    for (Window* window : {&a, &b}) {
      window->on_acknowledged(window->frames(), window->frames(), kNow);
      window->on_round_trip(took);
    }
  }
  EXPECT_LT(carried_a, carried_b * 5 / 4);
  EXPECT_LT(carried_b, carried_a * 5 / 4);
  EXPECT_GT((carried_a + carried_b) * 8'600, 1000 * 100'000u) << "the link is hardly ever idle";
}

TEST(Window, shrinks_by_half_at_the_first_mark_and_by_less_when_marks_are_rare) {
  Window window = started(1024);
  std::uint32_t before = window.frames();
  window.on_mark(1'000'000);
  EXPECT_EQ(window.frames(), before / 2);
  window.on_mark(1'000'001);
  EXPECT_EQ(window.frames(), before / 2) << "once per round trip";
  for (Nanoseconds now = 100'000'000; now < 2'000'000'000; now += 100'000'000) {
    for (int i = 0; i < 20; ++i) window.on_acknowledged(window.frames(), window.frames(), kNow);
    before = window.frames();
    window.on_mark(now);
  }
  EXPECT_GT(window.frames(), before * 9 / 10);
  EXPECT_LT(window.frames(), before);
}

TEST(Window, keeps_a_few_frames_whatever_happens) {
  Window window = started(4096);
  for (int i = 0; i < 100; ++i) window.on_loss();
  EXPECT_EQ(window.frames(), Window::kFewestFrames);
  window.on_timeout();
  EXPECT_EQ(window.frames(), Window::kFewestFrames);
}

TEST(Window, comes_back_quickly_to_half_after_a_time_out) {
  Window window = started(1024);
  const std::uint32_t before = window.frames();
  window.on_timeout();
  EXPECT_EQ(window.frames(), Window::kFewestFrames);
  for (int i = 0; i < 4; ++i) window.on_acknowledged(window.frames(), window.frames(), kNow);
  EXPECT_GE(window.frames(), before / 2);
}

TEST(Window, waits_no_longer_than_a_bound_for_answers_that_come_late) {
  Window window = started(4096);
  window.on_round_trip(20'000);
  window.on_late_answer(3'000'000);
  EXPECT_GE(window.timeout_ns(0), 3'000'000u);
  window.on_late_answer(10'000'000'000);
  EXPECT_LE(window.timeout_ns(0), 2 * Window::kMostLate_ns);
}

TEST(Window, knows_no_time_out_before_the_first_round_trip_and_waits_longer_each_time) {
  Window window = started(4096);
  EXPECT_EQ(window.timeout_ns(0), kNever);
  window.on_round_trip(20'000);
  EXPECT_EQ(window.timeout_ns(0), Window::kShortestTimeout_ns);
  EXPECT_EQ(window.timeout_ns(3), 8 * Window::kShortestTimeout_ns);
  for (int i = 0; i < 100; ++i) window.on_round_trip(50'000'000);
  EXPECT_GT(window.timeout_ns(0), 190'000'000u);
}

}  // namespace
}  // namespace weft::transport

#include "transport/window.h"

#include <gtest/gtest.h>

namespace weft::transport {
namespace {

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
  window.on_acknowledged(first, first);
  EXPECT_EQ(window.frames(), 2 * first);
  for (int i = 0; i < 20; ++i) window.on_acknowledged(window.frames(), window.frames());
  EXPECT_EQ(window.frames(), window.most());
  EXPECT_EQ(window.frames() * 4096, Window::kMostBytes);
}

TEST(Window, does_not_grow_while_the_program_sends_little) {
  Window window = started(4096);
  const std::uint32_t first = window.frames();
  for (int i = 0; i < 1000; ++i) window.on_acknowledged(1, 2);
  EXPECT_EQ(window.frames(), first);
}

TEST(Window, shrinks_by_a_part_after_a_loss_and_then_grows_by_one_per_round_trip) {
  Window window = started(1024);
  const std::uint32_t before = window.frames();
  window.on_loss();
  const std::uint32_t after = window.frames();
  EXPECT_EQ(after, before * 7 / 10);
  for (std::uint32_t i = 0; i < after; ++i) window.on_acknowledged(1, after);
  EXPECT_EQ(window.frames(), after + 1);
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
  for (int i = 0; i < 4; ++i) window.on_acknowledged(window.frames(), window.frames());
  EXPECT_GE(window.frames(), before / 2);
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

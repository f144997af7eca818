#include "cm/allowance.h"

#include <gtest/gtest.h>

namespace weft::cm {
namespace {

constexpr Nanoseconds kSecond_ns = 1'000'000'000;

TEST(Allowance, lets_so_many_through_at_once_and_then_so_many_a_second) {
  Allowance allowance(5, 10);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(allowance.take(kSecond_ns));
  EXPECT_FALSE(allowance.take(kSecond_ns));
  int taken = 0;
  for (Nanoseconds now = kSecond_ns; now < 3 * kSecond_ns; now += kSecond_ns / 1000) {
    taken += allowance.take(now);
  }
  EXPECT_GE(taken, 18);
  EXPECT_LE(taken, 20);
}

TEST(Allowance, comes_back_whole_after_a_pause_and_not_more) {
  Allowance allowance(5, 10);
  while (allowance.take(kSecond_ns)) {
  }
  int taken = 0;
  while (allowance.take(1000 * kSecond_ns)) ++taken;
  EXPECT_EQ(taken, 5);
}

}  // namespace
}  // namespace weft::cm

#include "base/busy_wait.h"

#include <gtest/gtest.h>

namespace weft::base {
namespace {

constexpr Nanoseconds kShortWait = 80'000, kLongWait = 3'000'000;

TEST(BusyWait, sleeps_at_once_until_a_wait_was_short) {
  BusyWait busy;
  EXPECT_EQ(busy.begin(), 0);
  busy.slept(kLongWait);
  EXPECT_EQ(busy.begin(), 0);
  busy.slept(kShortWait);
  EXPECT_EQ(busy.begin(), BusyWait::kLongest_ns);
  busy.missed();
  busy.slept(kLongWait);
  EXPECT_EQ(busy.begin(), 0) << "the machine is idle again";
}

TEST(BusyWait, goes_on_while_messages_come_in_time) {
  BusyWait busy;
  busy.slept(kShortWait);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(busy.begin(), BusyWait::kLongest_ns);
    busy.found();
  }
}

TEST(BusyWait, tries_less_and_less_often_while_messages_come_too_late) {
  BusyWait busy;
  busy.slept(kShortWait);
  int tries = 0;
  constexpr int kWaits = 100'000;
  for (int i = 0; i < kWaits; ++i) {
    if (busy.begin() != 0) {
      ++tries;
      busy.missed();
    }
    busy.slept(kShortWait);
  }
  EXPECT_GT(tries, 10) << "it never gives up for ever";
  EXPECT_LT(tries, kWaits / 500);
}

TEST(BusyWait, begins_anew_with_the_first_message_that_comes_in_time) {
  BusyWait busy;
  busy.slept(kShortWait);
  int waits = 0;
  for (int misses = 0; misses < 20; ++waits) {
    if (busy.begin() != 0) {
      busy.missed();
      ++misses;
    }
    busy.slept(kShortWait);
  }
  while (busy.begin() == 0) busy.slept(kShortWait);
  busy.found();
  EXPECT_NE(busy.begin(), 0);
  busy.missed();
  busy.slept(kShortWait);
  EXPECT_EQ(busy.begin(), 0);
  busy.slept(kShortWait);
  EXPECT_NE(busy.begin(), 0) << "one wait was skipped, not a thousand";
}

}  // namespace
}  // namespace weft::base

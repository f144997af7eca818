#include "base/lock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "unit/base/exclusion.h"

namespace weft::base {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

TEST(Lock, lets_one_thread_in_at_a_time) { test::expect_one_thread_at_a_time<Lock>(); }

TEST(Lock, is_not_taken_twice) {
  Lock lock;
  ASSERT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
}

// Whoever lets go looks for sleepers without a fence. One that is missed sleeps for as long as it
// may, which is many times what waking it takes.
TEST(Lock, wakes_whoever_sleeps) {
  constexpr int kRounds = 21;
  std::vector<Steady::duration> delays;
  for (int round = 0; round < kRounds; ++round) {
    Lock lock;
    lock.lock();
    Steady::time_point taken;
    std::thread waiter([&] {
      lock.lock();
      taken = Steady::now();
    });
    std::this_thread::sleep_for(5ms);  // long enough for it to fall asleep
    const Steady::time_point free = Steady::now();
    lock.unlock();
    waiter.join();
    delays.push_back(taken - free);
  }
  std::nth_element(delays.begin(), delays.begin() + kRounds / 2, delays.end());
  EXPECT_LT(delays[kRounds / 2], 20ms);
}

}  // namespace
}  // namespace weft::base

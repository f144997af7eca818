// What every lock has to do, for the tests of each.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <vector>

namespace weft::base::test {

/// Several threads go in and out as fast as they can.
template <class AnyLock>
void expect_one_thread_at_a_time() {
  constexpr int kThreads = 4, kRounds = 50'000;
  AnyLock lock;
  int inside = 0, most_inside = 0, rounds = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        const std::lock_guard guard(lock);
        most_inside = std::max(most_inside, ++inside);
        ++rounds;
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most_inside, 1);
  EXPECT_EQ(rounds, kThreads * kRounds);
}

}  // namespace weft::base::test

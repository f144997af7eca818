#include "base/per_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <thread>

namespace weft::base {
namespace {

std::atomic<int> counted_made{0}, counted_released{0};

struct Counted {
  Counted() { ++counted_made; }
  ~Counted() { ++counted_released; }
  int value = 0;
};
using Mine = PerThread<Counted>;

TEST(PerThread, is_made_at_first_use_and_released_when_the_thread_ends) {
  const int made_before = counted_made, released_before = counted_released;
  Counted* first = nullptr;
  std::thread([&] {
    EXPECT_EQ(counted_made, made_before);
    first = Mine::get();
    first->value = 7;
    EXPECT_EQ(Mine::get(), first);
    EXPECT_EQ(&Mine::known(), first);
    std::thread([&] { EXPECT_NE(Mine::get(), first); }).join();
    EXPECT_EQ(first->value, 7);
    EXPECT_EQ(counted_released, released_before + 1);
  }).join();
  EXPECT_EQ(counted_made, made_before + 2);
  EXPECT_EQ(counted_released, released_before + 2);
}

TEST(PerThread, is_made_anew_for_destructors_that_come_after_its_own) {
  const int made_before = counted_made, released_before = counted_released;
  static pthread_key_t later;  // the C library runs destructors of keys in rounds
  static int rounds = 0;
  ASSERT_EQ(pthread_key_create(&later,
                               [](void* value) {
                                 if (++rounds < 3) pthread_setspecific(later, value);
                                 Mine::get()->value = rounds;
                               }),
            0);
  std::thread([] {
    Mine::get();
    pthread_setspecific(later, &later);
  }).join();
  EXPECT_EQ(rounds, 3);
  EXPECT_GE(counted_made, made_before + 2);
  EXPECT_EQ(counted_made - made_before, counted_released - released_before);
  pthread_key_delete(later);
}

}  // namespace
}  // namespace weft::base

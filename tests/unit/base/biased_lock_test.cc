#include "base/biased_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "base/thread_barrier.h"
#include "unit/base/exclusion.h"

namespace weft::base {
namespace {

using namespace std::chrono_literals;

/// So often that the lock is biased towards the caller.
void lean(BiasedLock& lock) {
  for (int i = 0; i < 100; ++i) {
    const std::lock_guard guard(lock);
  }
}

TEST(BiasedLock, lets_one_thread_in_at_a_time) { test::expect_one_thread_at_a_time<BiasedLock>(); }

// The bias is taken away while its owner goes in and out as fast as it can: the moment that needs
// the barrier.
TEST(BiasedLock, is_taken_from_its_owner_at_any_moment) {
  for (int round = 0; round < 200; ++round) {
    BiasedLock lock;
    std::atomic<bool> leans{false}, taken{false};
    std::uint64_t guarded = 0, by_owner = 0;
    std::thread owner([&] {
      lean(lock);
      leans.store(true);
      while (!taken.load(std::memory_order_relaxed)) {
        const std::lock_guard guard(lock);
        ++guarded;
        ++by_owner;
      }
    });
    while (!leans.load()) std::this_thread::yield();
    for (int i = 0; i < round; ++i) relax();
    {
      const std::lock_guard guard(lock);
      const std::uint64_t before = guarded;
      for (int i = 0; i < 300; ++i) relax();
      EXPECT_EQ(guarded, before) << "somebody else was inside";
      ++guarded;
      taken.store(true, std::memory_order_relaxed);
    }
    owner.join();
    EXPECT_EQ(guarded, by_owner + 1);
  }
}

TEST(BiasedLock, waits_for_an_owner_that_stays_inside) {
  BiasedLock lock;
  lean(lock);
  lock.lock();
  std::atomic<bool> got_in{false};
  std::thread other([&] {
    const std::lock_guard guard(lock);
    got_in.store(true);
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(got_in.load());
  lock.unlock();
  other.join();
  EXPECT_TRUE(got_in.load());
}

TEST(BiasedLock, is_refused_to_others_while_the_owner_is_inside) {
  BiasedLock lock;
  lean(lock);
  lock.lock();
  std::thread([&] { EXPECT_FALSE(lock.try_lock()); }).join();
  lock.unlock();
  std::thread([&] {
    EXPECT_TRUE(lock.try_lock());
    lock.unlock();
  }).join();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

// The owner stays inside until the other's attempt is over: one that waited would wait for ever.
TEST(BiasedLock, is_never_waited_for_by_one_who_only_tries) {
  std::atomic<BiasedLock*> at{nullptr};
  std::atomic<int> tried{0};
  std::atomic<bool> over{false};
  const auto wait_until = [](auto ready) {
    for (int i = 0; !ready(); ++i) i < 10'000 ? relax() : std::this_thread::yield();
  };
  std::thread other([&] {
    for (;;) {
      BiasedLock* lock = nullptr;
      wait_until([&] { return (lock = at.exchange(nullptr)) != nullptr || over; });
      if (lock == nullptr) return;
      if (lock->try_lock()) lock->unlock();
      ++tried;
    }
  });
  const auto end = std::chrono::steady_clock::now() + 1s;  // fewer rounds on a loaded machine
  for (int round = 1; round <= 20'000 && std::chrono::steady_clock::now() < end; ++round) {
    BiasedLock lock;
    lean(lock);
    at = &lock;
    // The attempt begins about now: meet it everywhere.
    for (int i = 0; i < round % 200; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
    lock.lock();
    wait_until([&] { return tried == round; });
    lock.unlock();
  }
  over = true;
  other.join();
}

TEST(BiasedLock, is_never_biased_towards_a_thread_that_asked_not_to) {
  BiasedLock lock;
  std::thread([&] {
    BiasedLock::never_own();
    lean(lock);
    EXPECT_FALSE(lock.try_enter());
  }).join();
  // The place of the owner is free.
  std::thread([&] {
    lean(lock);
    const bool leans = lock.try_enter();
    EXPECT_EQ(leans, can_order_threads());
    if (leans) lock.leave();
  }).join();
}

TEST(BiasedLock, outlives_its_owner) {
  BiasedLock lock;
  int guarded = 0;
  for (int round = 0; round < 20; ++round) {
    std::thread([&] {
      lean(lock);
      const std::lock_guard guard(lock);
      ++guarded;
    }).join();
  }
  EXPECT_EQ(guarded, 20);
}

}  // namespace
}  // namespace weft::base

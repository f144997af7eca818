#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "memory/flight.h"
#include "unit/memory/run_on.h"

namespace weft::memory {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongest{2000};  // on a loaded machine: fewer rounds instead of more time

void wait_for(const std::atomic<bool>& flag) {
  while (!flag.load(std::memory_order_acquire)) std::this_thread::yield();
}

TEST(ThreadsFlight, drain_waits_for_every_kind_of_hold) {
  int object = 0;
  for (const Hold hold : {Hold::kPeer, Hold::kRemote, Hold::kLocal, Hold::kScatter}) {
    std::atomic<bool> published{false}, let_go{false}, drained{false};
    std::thread worker([&] {
      const Flight::Scope scope(hold, &object);
      published.store(true, std::memory_order_release);
      wait_for(let_go);
      EXPECT_FALSE(drained.load(std::memory_order_acquire));
    });
    wait_for(published);
    std::thread drainer([&] {
      Flight::drain(&object);
      drained.store(true, std::memory_order_release);
    });
    std::this_thread::sleep_for(milliseconds(5));
    EXPECT_FALSE(drained.load(std::memory_order_acquire));
    let_go.store(true, std::memory_order_release);
    worker.join();
    drainer.join();
    EXPECT_TRUE(drained);
  }
}

TEST(ThreadsFlight, drain_waits_for_everything_that_is_kept_until_it_is_released) {
  std::array<int, kMaxKept> objects{};
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}, kMaxKept - 1}) {
    std::atomic<bool> published{false}, let_go{false}, drained{false};
    std::thread worker([&] {
      for (int& object : objects) Flight::keep(&object);
      for (int& object : objects) Flight::keep(&object);  // once is enough
      EXPECT_FALSE(Flight::has_room_to_keep(1));
      EXPECT_TRUE(Flight::keeps_any());
      published.store(true, std::memory_order_release);
      wait_for(let_go);
      EXPECT_FALSE(drained.load(std::memory_order_acquire));
      Flight::release_kept();
      EXPECT_TRUE(Flight::has_room_to_keep(kMaxKept));
      EXPECT_FALSE(Flight::holds_any());
    });
    wait_for(published);
    std::thread drainer([&] {
      Flight::drain(&objects[i]);
      drained.store(true, std::memory_order_release);
    });
    std::this_thread::sleep_for(milliseconds(5));
    EXPECT_FALSE(drained.load(std::memory_order_acquire));
    let_go.store(true, std::memory_order_release);
    worker.join();
    drainer.join();
  }
}

TEST(ThreadsFlight, drain_passes_other_objects_and_the_threads_own) {
  int mine = 0, other = 0, dead = 0;
  Flight::publish(Hold::kPeer, &mine);
  std::atomic<bool> published{false}, let_go{false};
  std::thread worker([&] {
    const Flight::Scope scope(Hold::kRemote, &other);
    published.store(true, std::memory_order_release);
    wait_for(let_go);
  });
  wait_for(published);
  Flight::drain(&mine);
  Flight::drain(&dead);
  Flight::clear(Hold::kPeer);
  let_go.store(true, std::memory_order_release);
  worker.join();
}

TEST(ThreadsFlight, a_scope_clears_all_that_it_set_and_nothing_else) {
  int first = 0, second = 0, kept = 0;
  std::atomic<bool> ended{false}, let_go{false};
  std::thread worker([&] {
    Flight::publish(Hold::kPeer, &kept);
    {
      Flight::Scope scope(Hold::kLocal, &first);
      scope.set(Hold::kScatter, &second);
    }
    ended.store(true, std::memory_order_release);
    wait_for(let_go);
    Flight::clear(Hold::kPeer);
  });
  wait_for(ended);
  Flight::drain(&first);
  Flight::drain(&second);
  std::atomic<bool> drained{false};
  std::thread drainer([&] {
    Flight::drain(&kept);
    drained.store(true, std::memory_order_release);
  });
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_FALSE(drained.load(std::memory_order_acquire));
  let_go.store(true, std::memory_order_release);
  worker.join();
  drainer.join();
}

TEST(ThreadsFlight, a_thread_that_ended_holds_nobody_up) {
  int object = 0;
  for (int i = 0; i < 100; ++i) std::thread([&] { Flight::publish(Hold::kPeer, &object); }).join();
  Flight::drain(&object);
}

std::atomic<int> stalls{0};
std::atomic<int> stalled_thread{0};

TEST(ThreadsFlight, names_the_thread_that_keeps_it_waiting_once) {
  int object = 0;
  std::atomic<int> worker_id{0};
  std::atomic<bool> let_go{false};
  stalls = 0;
  Flight::set_stall_handler([](const void*, int thread_id) {
    ++stalls;
    stalled_thread = thread_id;
  });
  std::thread worker([&] {
    const Flight::Scope scope(Hold::kPeer, &object);
    worker_id.store(gettid(), std::memory_order_release);
    wait_for(let_go);
  });
  while (worker_id.load(std::memory_order_acquire) == 0) std::this_thread::yield();
  std::thread drainer([&] { Flight::drain(&object); });
  while (stalls == 0) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(milliseconds(250));
  let_go.store(true, std::memory_order_release);
  worker.join();
  drainer.join();
  Flight::set_stall_handler(nullptr);
  EXPECT_EQ(stalls, 1);
  EXPECT_EQ(stalled_thread, worker_id);
}

// An object that dies while others work on it: nobody is inside once drain() has returned.
TEST(ThreadsFlight, nobody_works_on_an_object_after_its_drain) {
  struct Object {
    std::atomic<bool> live{false};
    std::uint64_t work = 0;  // not atomic: tsan sees what the protocol fails to order
  };
  Object object;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> worked{0};
  std::thread worker([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      const Flight::Scope scope(Hold::kRemote, &object);
      if (!object.live.load(std::memory_order_acquire)) continue;
      for (int i = 0; i < 20; ++i) {
        auto* work = const_cast<volatile std::uint64_t*>(&object.work);
        *work = *work + 1;
      }
      worked.fetch_add(20, std::memory_order_relaxed);
    }
  });
  std::uint64_t lost = 0;
  const auto end = std::chrono::steady_clock::now() + kLongest;
  for (int i = 0; i < 3000 && std::chrono::steady_clock::now() < end; ++i) {
    object.work = 0;
    const std::uint64_t before = worked.load(std::memory_order_relaxed);
    object.live.store(true, std::memory_order_release);
    while (worked.load(std::memory_order_relaxed) == before) std::this_thread::yield();
    object.live.store(false, std::memory_order_relaxed);
    Flight::drain(&object);
    lost += object.work % 20;
  }
  stop = true;
  worker.join();
  EXPECT_EQ(lost, 0U);
}

// The same for objects that are kept, each among others that come and go.
TEST(ThreadsFlight, nobody_works_on_a_kept_object_after_its_drain) {
  struct Object {
    std::atomic<bool> live{false};
    std::uint64_t work = 0;
  };
  Object object;
  std::array<int, 3> others{};
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> worked{0};
  std::thread worker([&] {
    for (std::size_t round = 0; !stop.load(std::memory_order_relaxed); ++round) {
      for (std::size_t i = 0; i < round % 4; ++i) Flight::keep(&others[i]);
      Flight::keep(&object);
      if (object.live.load(std::memory_order_acquire)) {
        for (int i = 0; i < 20; ++i) {
          auto* work = const_cast<volatile std::uint64_t*>(&object.work);
          *work = *work + 1;
        }
        worked.fetch_add(20, std::memory_order_relaxed);
      }
      Flight::release_kept();
    }
  });
  std::uint64_t lost = 0;
  const auto end = std::chrono::steady_clock::now() + kLongest;
  for (int i = 0; i < 3000 && std::chrono::steady_clock::now() < end; ++i) {
    object.work = 0;
    const std::uint64_t before = worked.load(std::memory_order_relaxed);
    object.live.store(true, std::memory_order_release);
    while (worked.load(std::memory_order_relaxed) == before) std::this_thread::yield();
    object.live.store(false, std::memory_order_relaxed);
    Flight::drain(&object);
    lost += object.work % 20;
  }
  stop = true;
  worker.join();
  EXPECT_EQ(lost, 0U);
}

// The narrow case, a store and a load on each side: the worker publishes and looks, the owner kills
// and looks. If the worker's look could pass its store, both would find nothing in their way.
TEST(ThreadsFlight, publishing_is_seen_before_the_check_is_made) {
  struct alignas(64) Word {
    std::atomic<std::uint32_t> value{0};
  };
  Word live, round_started, round_done, worked;
  constexpr std::uint32_t kRounds = 200'000;
  constexpr std::uint32_t kEnd = ~std::uint32_t{0};
  const auto wait_until = [](const Word& word, std::uint32_t value) {
    for (int spins = 0; word.value.load(std::memory_order_acquire) < value; ++spins) {
      if (spins > 10'000) std::this_thread::yield();
    }
  };
  cpu_set_t all;
  sched_getaffinity(0, sizeof all, &all);
  std::thread worker([&] {
    test::run_on(1, all);
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
      wait_until(round_started, round);
      if (round_started.value.load(std::memory_order_relaxed) == kEnd) return;
      // With the word at hand, the check is fast while the store waits for its cache line.
      if (live.value.load(std::memory_order_relaxed) == kEnd) return;
      Flight::publish(Hold::kRemote, &live);
      if (live.value.load(std::memory_order_acquire) == round) {
        for (int i = 0; i < 300; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
        worked.value.store(round, std::memory_order_relaxed);
      }
      Flight::clear(Hold::kRemote);
      round_done.value.store(round, std::memory_order_release);
    }
  });
  test::run_on(0, all);
  std::uint32_t late = 0;
  const auto end = std::chrono::steady_clock::now() + kLongest;
  for (std::uint32_t round = 1; round <= kRounds; ++round) {
    if (std::chrono::steady_clock::now() > end) break;
    live.value.store(round, std::memory_order_relaxed);
    round_started.value.store(round, std::memory_order_release);
    // The worker is somewhere between seeing the round and being done: meet it everywhere.
    for (std::uint32_t i = 0; i < round * 7 % 2000; ++i) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    live.value.store(0, std::memory_order_relaxed);
    Flight::drain(&live);
    const std::uint32_t before = worked.value.load(std::memory_order_relaxed);
    wait_until(round_done, round);
    late += worked.value.load(std::memory_order_relaxed) != before ? 1 : 0;
  }
  round_started.value.store(kEnd, std::memory_order_release);
  worker.join();
  sched_setaffinity(0, sizeof all, &all);
  EXPECT_EQ(late, 0U);
}

#if !defined(__SANITIZE_THREAD__)
TEST(ThreadsFlight, a_forked_child_does_not_wait_for_its_parents_threads) {
  int object = 0;
  std::atomic<bool> published{false}, let_go{false};
  std::thread worker([&] {
    const Flight::Scope scope(Hold::kPeer, &object);
    published.store(true, std::memory_order_release);
    wait_for(let_go);
  });
  wait_for(published);
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    Flight::drain(&object);
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  let_go.store(true, std::memory_order_release);
  worker.join();
}
#endif

}  // namespace
}  // namespace weft::memory

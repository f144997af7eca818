// Revocation under fire: while threads write through remote keys, the owner deregisters, rebinds or
// invalidates and uses the memory for itself at once. Not one byte may land there afterwards.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "memory/copy.h"
#include "unit/memory/key_fixture.h"
#include "unit/memory/run_on.h"

namespace weft::memory {
namespace {

constexpr std::size_t kBytes = 64 * 1024;
constexpr std::size_t kPeers = 3;
constexpr std::size_t kMinCycles = 20;  // however loaded the machine is
constexpr std::size_t kStripe = kBytes / 4;
constexpr std::byte kOwner{0x5A}, kPeer{0xC3};

class ThreadsRevocation : public test::Keys {
 protected:
  struct Target {
    std::uint32_t rkey;
    std::uint32_t offset_pages;
  };

  ThreadsRevocation() : memory(2 * kBytes / test::page_bytes()) {}

  // What a peer does: check, copy, let go; again and again, with the newest key and with old ones.
  // Each peer has a stripe of its own, so that peers do not race with each other.
  void write_until_stopped(std::size_t stripe) {
    const std::vector<std::byte> source(kStripe, kPeer);
    std::size_t n = 1;
    std::uint64_t round = 0;
    Target old{};
    while (!stop.load(std::memory_order_relaxed)) {
      const Target now = target.load(std::memory_order_acquire);
      const Target used = ++round % 16 == 0 ? old : now;
      old = now;
      const std::uint64_t address =
          memory.address() + used.offset_pages * test::page_bytes() + stripe * kStripe;
      n = n >= kStripe ? 1 : n * 2;
      Flight::Scope scope;
      const auto place = table.check_remote(RemoteKey(used.rkey), write_of(address, n));
      scope.adopt(Hold::kRemote);
      if (!place) {
        std::this_thread::yield();
        continue;
      }
      if (store(*place, std::span(source).first(n)) != Fault::kNone) abort();
      scope.clear();
      landed.fetch_add(1, std::memory_order_relaxed);
    }
  }

  // Runs `cycle` while peers write. It grants, lets them write, revokes, and says what it revoked.
  void run(const std::function<std::span<std::byte>()>& cycle) {
    std::vector<std::thread> peers;
    for (std::size_t i = 0; i < kPeers; ++i) {
      peers.emplace_back([this, i] { write_until_stopped(i); });
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
    std::size_t spoiled = 0, cycles = 0;
    while (std::chrono::steady_clock::now() < end || cycles < kMinCycles) {
      const std::span<std::byte> bytes = cycle();
      std::memset(bytes.data(), static_cast<int>(kOwner), bytes.size());
      for (int i = 0; i < 3; ++i) std::this_thread::yield();
      std::size_t foreign = 0;
      for (const std::byte b : bytes) foreign += b != kOwner ? 1 : 0;
      spoiled += foreign > 0 ? 1 : 0;
      ++cycles;
    }
    stop = true;
    for (auto& peer : peers) peer.join();
    EXPECT_EQ(spoiled, 0U) << "of " << cycles << " revocations";
    EXPECT_GE(landed.load(), cycles);
  }

  // Peers have written through the newest key at least once, so some are in the middle of it.
  void grant(RemoteKey rkey, std::uint32_t offset_pages) {
    const std::uint64_t before = landed.load(std::memory_order_relaxed);
    target.store({rkey.value, offset_pages}, std::memory_order_release);
    while (landed.load(std::memory_order_relaxed) == before) std::this_thread::yield();
  }

  RegionKeys register_memory() {
    auto whole = spec();
    whole.address = memory.address();
    whole.length = memory.size();
    return *table.register_region(whole);
  }
  std::span<std::byte> half(std::uint32_t i) { return {memory.data() + i * kBytes, kBytes}; }
  std::uint32_t half_pages(std::uint32_t i) {
    return static_cast<std::uint32_t>(i * kBytes / test::page_bytes());
  }

  test::Pages memory;
  std::atomic<Target> target{Target{0, 0}};
  std::atomic<std::uint64_t> landed{0};
  std::atomic<bool> stop{false};
};

TEST_F(ThreadsRevocation, no_byte_lands_after_deregistration_returned) {
  // B4.9: a key is served while it is live, and no longer.
  run([&] {
    const auto keys = register_memory();
    grant(keys.rkey, 0);
    EXPECT_TRUE(table.deregister_region(keys.lkey));
    return half(0);
  });
}

TEST_F(ThreadsRevocation, no_byte_lands_in_the_old_range_after_a_rebind_returned) {
  // B4.8: a key protects one region at a time.
  const auto keys = register_memory();
  auto window = *table.allocate_window(kPd, WindowType::kType1);
  std::uint32_t side = 0;
  const auto bind_side = [&] {
    const auto at = memory.address() + side * kBytes;
    window = *table.bind(bind_of(window, keys.lkey, at, kBytes, Access::kRemoteWrite));
  };
  bind_side();
  run([&] {
    grant(window, half_pages(side));
    side ^= 1;
    bind_side();
    return half(side ^ 1);
  });
}

// The narrow case, a store and a load on each side: the peer publishes and looks at the key, the
// owner takes the key back and looks for peers. Nobody calls the kernel for it; if the peer's look
// could pass its store, both would find nothing in their way.
TEST_F(ThreadsRevocation, a_rebind_needs_no_barrier_to_see_who_was_let_in) {
  // B4.6, B4.8
  struct alignas(64) Word {
    std::atomic<std::uint32_t> value{0};
  };
  Word key, started, done, worked;
  constexpr std::uint32_t kRounds = 200'000;
  constexpr std::uint32_t kEnd = ~std::uint32_t{0};
  const auto reach = [](const Word& word, std::uint32_t value) {
    for (int spins = 0; word.value.load(std::memory_order_acquire) < value; ++spins) {
      if (spins > 10'000) std::this_thread::yield();
    }
  };
  const auto keys = register_memory();
  auto window = *table.allocate_window(kPd, WindowType::kType1);
  window = *table.bind(bind_of(window, keys.lkey, memory.address(), 64, Access::kRemoteWrite));
  cpu_set_t all;
  sched_getaffinity(0, sizeof all, &all);
  std::thread peer([&] {
    test::run_on(1, all);
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
      reach(started, round);
      if (started.value.load(std::memory_order_relaxed) == kEnd) return;
      const RemoteKey rkey(key.value.load(std::memory_order_relaxed));
      // With the entry at hand, the look is fast while the store waits for its cache line.
      if (table.find(rkey)->version.load(std::memory_order_relaxed) == kEnd) return;
      if (table.check_remote(rkey, write_of(memory.address(), 8))) {
        for (int i = 0; i < 300; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
        worked.value.store(round, std::memory_order_relaxed);
      }
      Flight::clear(Hold::kRemote);
      done.value.store(round, std::memory_order_release);
    }
  });
  test::run_on(0, all);
  std::uint32_t late = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  for (std::uint32_t round = 1; round <= kRounds; ++round) {
    if (std::chrono::steady_clock::now() > end) break;
    key.value.store(window.value, std::memory_order_relaxed);
    started.value.store(round, std::memory_order_release);
    // The peer is somewhere between seeing the round and being done: meet it everywhere.
    for (std::uint32_t i = 0; i < round * 7 % 2000; ++i) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    window = *table.bind(bind_of(window, keys.lkey, memory.address(), 64, Access::kRemoteWrite));
    const std::uint32_t before = worked.value.load(std::memory_order_relaxed);
    reach(done, round);
    late += worked.value.load(std::memory_order_relaxed) != before ? 1 : 0;
  }
  started.value.store(kEnd, std::memory_order_release);
  peer.join();
  sched_setaffinity(0, sizeof all, &all);
  EXPECT_EQ(late, 0U);
}

TEST_F(ThreadsRevocation, no_byte_lands_after_an_invalidation_returned) {
  const auto keys = register_memory();
  auto window = *table.allocate_window(kPd, WindowType::kType2);
  std::uint8_t tag = 0;
  run([&] {
    window = *table.bind(
        bind_of(window, keys.lkey, memory.address(), kBytes, Access::kRemoteWrite, ++tag));
    grant(window, 0);
    EXPECT_TRUE(table.invalidate(window, kPd, kQpn));
    return half(0);
  });
}

TEST_F(ThreadsRevocation, a_one_shot_key_has_one_winner) {
  // B4.10
  for (int round = 0; round < 200; ++round) {
    const auto keys = region(test::kEverything | Access::kOneShot);
    std::atomic<int> winners{0}, ready{0};
    std::vector<std::thread> peers;
    for (std::uint64_t use = 1; use <= 3; ++use) {
      peers.emplace_back([&, use] {
        ++ready;
        while (ready.load() < 3) std::this_thread::yield();
        for (int i = 0; i < 2; ++i) {
          if (remote(keys.rkey, write_of(pages.address(), 8, use))) ++winners;
        }
      });
    }
    for (auto& peer : peers) peer.join();
    ASSERT_EQ(winners, 2) << "one use, with its retransmission";
    ASSERT_TRUE(table.deregister_region(keys.lkey));
  }
}

TEST_F(ThreadsRevocation, mutations_from_many_threads_keep_the_table_whole) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const auto keys = *table.register_region(spec());
        auto window = *table.allocate_window(kPd, WindowType::kType1);
        window = *table.bind(bind_of(window, keys.lkey, pages.address(), 64));
        if (!remote(window, write_of(pages.address(), 64))) abort();
        if (table.deregister_region(keys.lkey)) abort();
        if (!table.deallocate_window(window)) abort();
        if (!table.deregister_region(keys.lkey)) abort();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(table.live_regions(), 0U);
  EXPECT_EQ(table.live_windows(), 0U);
}

}  // namespace
}  // namespace weft::memory

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "memory/copy.h"
#include "memory/host_vmm.h"

namespace weft::memory {
namespace {

constexpr int kCopies = 4000;

// tsan knows a release store and an acquire load as a pair only when address and size are the same,
// so the reader, which has polled on one byte, loads once more what the last store has written.
void meet_last_store(const std::byte* end) {
  const auto number = reinterpret_cast<std::uintptr_t>(end);
  const auto load = [=]<class T>(T) {
    static_cast<void>(
        __atomic_load_n(reinterpret_cast<const T*>(number - sizeof(T)), __ATOMIC_ACQUIRE));
  };
  if (number % 8 == 0) {
    load(std::uint64_t{});
  } else if (number % 4 == 0) {
    load(std::uint32_t{});
  } else if (number % 2 == 0) {
    load(std::uint16_t{});
  } else {
    load(std::uint8_t{});
  }
}

// The reader polls on the last byte, as programs do, and then finds all other bytes in place.
void poll_on_the_end(std::size_t offset, std::size_t n) {
  HostVmm vmm;
  alignas(64) static std::byte target[8192 + 64];
  std::byte* at = target + offset;
  std::memset(at, 0, n);
  std::atomic<int> seen{0};
  std::size_t early = 0;
  std::thread reader([&] {
    for (int round = 1; round <= kCopies; ++round) {
      const auto value = static_cast<unsigned char>(round);
      const auto* last = reinterpret_cast<const unsigned char*>(at + n - 1);
      while (__atomic_load_n(last, __ATOMIC_ACQUIRE) != value) std::this_thread::yield();
      meet_last_store(at + n);
      for (std::size_t i = 0; i + 1 < n; ++i) {
        if (at[i] != std::byte{value}) ++early;
      }
      seen.store(round, std::memory_order_release);
    }
  });
  std::vector<std::byte> source(n);
  for (int round = 1; round <= kCopies; ++round) {
    std::memset(source.data(), static_cast<unsigned char>(round), n);
    if (store({&vmm, reinterpret_cast<std::uint64_t>(at)}, source) != Fault::kNone) abort();
    while (seen.load(std::memory_order_acquire) != round) std::this_thread::yield();
  }
  reader.join();
  EXPECT_EQ(early, 0U) << "offset " << offset << ", " << n << " bytes";
}

TEST(ThreadsCopy, writes_the_end_of_an_aligned_range_last) { poll_on_the_end(0, 4096); }
TEST(ThreadsCopy, writes_a_partial_last_word_last) { poll_on_the_end(3, 4093 + 6); }
TEST(ThreadsCopy, writes_the_end_of_a_short_range_last) { poll_on_the_end(4, 23); }

TEST(ThreadsCopy, atomics_lose_no_update) {
  HostVmm vmm;
  alignas(8) std::uint64_t sum = 0, highest = 0;
  const Place counter{&vmm, reinterpret_cast<std::uint64_t>(&sum)};
  const Place swapped{&vmm, reinterpret_cast<std::uint64_t>(&highest)};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20'000; ++i) {
        if (!fetch_add(counter, 3)) abort();
        std::uint64_t old = 0, found = 0;
        do {
          old = found;
          found = *compare_swap(swapped, old, old + 1);
        } while (found != old);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(sum, 180'000U);
  EXPECT_EQ(highest, 60'000U);
}

}  // namespace
}  // namespace weft::memory

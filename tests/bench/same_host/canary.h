// The state of the machine in one number: how long a cache line takes from one process to the other
// at this moment. On a shared machine that moves by a factor of ten within seconds, so each sample
// is taken between two canaries, and thrown away when they tell that the machine was disturbed. The
// lines lie in memory that both processes map; the processes call together, each as its own side.
// Free of weft, so that the programs that measure others use the same canary.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace weft::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A word with cache lines of its own: two lines that the hardware fetches together count as one.
struct alignas(256) Line {
  std::atomic<std::uint64_t> value{0};
};

/// Two lines, one for each direction.
struct TwoLines {
  Line forth;
  Line back;
};

enum class Side : int { kFirst = 0, kSecond = 1 };

/// What a loop does that watches memory: a watcher that asks without a pause holds up the line that
/// it waits for, by a quarter where the two cores share no cache.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

inline void await(const Line& line, std::uint64_t value) {
  while (line.value.load(std::memory_order_acquire) != value) relax();
}

/// Nanoseconds one way, on average. The values of earlier calls do not matter, only that both sides
/// have made the same calls before.
inline double canary_ns(TwoLines& lines, Side side) {
  constexpr std::uint64_t kWarmUp = 400, kRoundTrips = 4000;
  Line& out = side == Side::kFirst ? lines.forth : lines.back;
  Line& in = side == Side::kFirst ? lines.back : lines.forth;
  const std::uint64_t base = out.value.load(std::memory_order_relaxed);
  Clock::time_point start;
  for (std::uint64_t i = base + 1; i <= base + kWarmUp + kRoundTrips; ++i) {
    if (i == base + kWarmUp + 1) start = Clock::now();
    if (side == Side::kSecond) await(in, i);
    out.value.store(i, std::memory_order_release);
    if (side == Side::kFirst) await(in, i);
  }
  return seconds_since(start) * 1e9 / (2.0 * static_cast<double>(kRoundTrips));
}

/// One sample as a line of text, for samples.py.
inline void print_sample(const char* name, std::size_t size, const char* unit, double value,
                         double canary_before_ns, double canary_after_ns) {
  std::printf("sample\t%s\t%zu\t%s\t%.6g\t%.1f\t%.1f\n", name, size, unit, value, canary_before_ns,
              canary_after_ns);
  std::fflush(stdout);
}

}  // namespace weft::bench

// The limits of the machine: what any library between two processes stands on.
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "contestants.h"
#include "laps.h"
#include "pages.h"

namespace weft::bench {
namespace {

/// Credits come back in steps, so that the lines of the ring are all that travels.
constexpr std::uint64_t kCreditStep = 256;

constexpr std::uint64_t kMessages = 2'000'000, kLapMessages = 20'000;

/// Millions of messages a second.
double produce(SharedMemory& shared) {
  Laps laps;
  std::uint64_t allowed = kRingSlots;
  for (std::uint64_t i = 1; i <= kMessages; ++i) {
    while (i > allowed) {
      allowed = shared.credit.value.load(std::memory_order_acquire) + kRingSlots;
    }
    Slot& slot = shared.ring[i % kRingSlots];
    slot.payload = 3 * i;
    slot.number.store(i, std::memory_order_release);
    if (i % kLapMessages == 0) laps.lap();
  }
  return static_cast<double>(kLapMessages) / laps.median_seconds() / 1e6;
}

void consume(SharedMemory& shared) {
  for (std::uint64_t i = 1; i <= kMessages; ++i) {
    Slot& slot = shared.ring[i % kRingSlots];
    while (slot.number.load(std::memory_order_acquire) != i) relax();
    if (slot.payload != 3 * i) give_up("ring:", "a message is wrong");
    if (i % kCreditStep == 0) shared.credit.value.store(i, std::memory_order_release);
  }
}

/// Gigabytes a second of a copy, repeated for a sample's time.
template <class Copy>
double stream_gb_s(std::size_t bytes, Copy copy) {
  Laps laps;
  do {
    for (std::size_t i = 0; i < stream_lap(bytes); ++i) copy();
    laps.lap();
  } while (!laps.sample_complete());
  return static_cast<double>(stream_lap(bytes) * bytes) / laps.median_seconds() / 1e9;
}

struct Target {
  pid_t pid;
  void* memory;
};

/// Memory of one side that the other writes into, on a page of its own.
struct alignas(4096) Mailbox {
  std::atomic<std::uint64_t> value{0};
};

}  // namespace

void measure_cross_memory(const Lane& lane, const char* name, CrossMemoryCall call,
                          std::span<std::byte> memory) {
  const Target target = lane.swap(Target{getpid(), memory.data()});
  const iovec mine{memory.data(), memory.size()};
  const iovec theirs{target.memory, memory.size()};
  lane.sample(name, memory.size(), "GB/s", [&] {
    if (!lane.first()) return 0.0;
    return stream_gb_s(memory.size(), [&] {
      if (call(target.pid, &mine, 1, &theirs, 1, 0) != static_cast<ssize_t>(mine.iov_len)) {
        give_up(name, std::strerror(errno));
      }
    });
  });
}

void measure_system_call_limit(const Lane& lane) {
  const auto mailbox = std::make_unique<Mailbox>();
  const Target target = lane.swap(Target{getpid(), &mailbox->value});
  lane.sample("limit/process_vm_ping_pong", kSmallBytes, "us", [&] {
    return ping_pong_us(
        lane.side(),
        [&](std::uint64_t i) {
          const iovec mine{&i, sizeof i}, theirs{target.memory, sizeof i};
          if (process_vm_writev(target.pid, &mine, 1, &theirs, 1, 0) != sizeof i) {
            give_up("process_vm_writev:", std::strerror(errno));
          }
        },
        [&](std::uint64_t i) {
          while (mailbox->value.load(std::memory_order_acquire) != i) relax();
        });
  });
  lane.meet();
}

void measure_line_limits(const Lane& lane) {
  TwoLines& lines = lane.shared().lines;
  const auto post = [](Line& line, std::uint64_t value) {
    line.value.store(value, std::memory_order_release);
  };
  lane.sample("limit/two_lines", kSmallBytes, "us", [&] {
    Line& out = lane.first() ? lines.forth : lines.back;
    Line& in = lane.first() ? lines.back : lines.forth;
    return ping_pong_us(
        lane.side(), [&](std::uint64_t i) { post(out, i); },
        [&](std::uint64_t i) { await(in, i); });
  });
  lines.forth.value = 0;
  lane.sample("limit/one_line", kSmallBytes, "us", [&] {
    const std::uint64_t mine = lane.first() ? 1 : 0, other = 1 - mine;
    return ping_pong_us(
        lane.side(), [&](std::uint64_t i) { post(lines.forth, 2 * i - mine); },
        [&](std::uint64_t i) { await(lines.forth, 2 * i - other); });
  });
}

void measure_ring_limit(const Lane& lane) {
  lane.sample("limit/spsc_ring", kSmallBytes, "M/s", [&] {
    if (lane.first()) return produce(lane.shared());
    consume(lane.shared());
    return 0.0;
  });
}

void measure_copy_limits(const Lane& lane) {
  for (const std::size_t bytes : kStreamBytes) {
    const Pages memory(bytes, std::byte{1});
    const Pages other(bytes, std::byte{2});
    lane.sample("limit/memcpy", bytes, "GB/s", [&] {
      if (!lane.first()) return 0.0;
      return stream_gb_s(bytes, [&] {
        std::memcpy(other.data(), memory.data(), bytes);
        asm volatile("" ::: "memory");  // or the copies would be merged into one
      });
    });
    const std::span<std::byte> shown(memory.data(), bytes);
    measure_cross_memory(lane, "limit/process_vm_readv", process_vm_readv, shown);
    measure_cross_memory(lane, "limit/process_vm_writev", process_vm_writev, shown);
  }
}

}  // namespace weft::bench

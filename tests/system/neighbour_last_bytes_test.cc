// The end of a write between processes comes last: a program that polls the last byte finds the
// rest in place, in whatever order the kernel or the processor writes.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>

#include "support/guarded_memory.h"
#include "support/hammered_memory.h"
#include "support/mailbox.h"
#include "support/neighbour_side.h"

namespace {

bool ends_come_first = false;

ssize_t write_piece(pid_t process, iovec from, iovec to, std::size_t offset, std::size_t n) {
  from = {static_cast<std::byte*>(from.iov_base) + offset, n};
  to = {static_cast<std::byte*>(to.iov_base) + offset, n};
  return syscall(SYS_process_vm_writev, process, &from, 1ul, &to, 1ul, 0ul);
}

}  // namespace

// The order in which the kernel writes the bytes of one element is its own affair. This takes the
// place of the library's, and shows the end of each element well before its beginning.
extern "C" ssize_t process_vm_writev(pid_t process, const iovec* from, unsigned long from_count,
                                     const iovec* to, unsigned long to_count,
                                     unsigned long flags) noexcept {
  if (!ends_come_first || from_count != to_count) {
    return syscall(SYS_process_vm_writev, process, from, from_count, to, to_count, flags);
  }
  ssize_t written = 0;
  for (unsigned long i = 0; i < to_count; ++i) {
    // A word is one store.
    const std::size_t half = to[i].iov_len > 8 ? to[i].iov_len / 2 : 0;
    written += write_piece(process, from[i], to[i], half, to[i].iov_len - half);
    weft::test::Hammered::spin(std::chrono::microseconds(5));
    written += write_piece(process, from[i], to[i], 0, half);
  }
  return written;
}

namespace weft::test {
namespace {

constexpr std::uint32_t kLongest = 8192;
constexpr std::uint32_t kFewestTurns = 100;

struct Ping {
  std::atomic<std::uint64_t> write{0};  ///< turn << 32 | length of the write that comes next
  std::atomic<std::uint32_t> seen{0};   ///< the last turn that the reader has looked at
  std::atomic<bool> over{false};
};

std::byte value_of(std::uint32_t turn) { return static_cast<std::byte>(turn % 255 + 1); }

/// Polls the last byte of each write, and then looks at the rest.
void run_reader(const Wire& wire, MemoryKind kind, Mailbox<Ping>& ping) {
  Side side;
  const GuardedMemory memory(kind, kLongest);
  const auto region = memory.grant(side.pd, kAllAccess);
  side.connect(wire);
  wire.put(region.remote());
  run_on_processor(0);
  const volatile std::byte* bytes = memory.data();
  for (std::uint32_t turn = 1;; ++turn) {
    std::uint64_t write = 0;
    while ((write = ping->write.load(std::memory_order_acquire)) >> 32 != turn) {
      if (ping->over.load()) return;
      sched_yield();  // on a busy machine it would only keep the other from its turn
    }
    const auto n = static_cast<std::uint32_t>(write);
    while (bytes[n - 1] != value_of(turn)) {
      if (ping->over.load()) return;
    }
    // Backwards, as what is written just before the end is the likeliest to be missing.
    for (std::uint32_t i = n; i-- > 0;) WEFT_REQUIRE(bytes[i] == value_of(turn));
    memory.fill(std::byte{0});
    ping->seen.store(turn, std::memory_order_release);
  }
}

/// Writes of many lengths and offsets, each when the one before it has been looked at.
void run_ping_writer(const Wire& wire, Mailbox<Ping>& ping) {
  // As long as it takes to see something, and as many turns as show it on a machine that is busy.
  constexpr std::int64_t kTime_ms = 800, kMostTime_ms = 120'000;
  Side side;
  const GuardedMemory own(MemoryKind::kHeap, kLongest);
  const auto region = own.grant(side.pd, kAllAccess);
  side.connect(wire);
  const auto remote = wire.get<RemoteAddress>();
  run_on_processor(1);
  ends_come_first = true;
  std::mt19937 random(7);
  const std::int64_t begin = now_ms();
  std::uint32_t turn = 1;
  for (; now_ms() < begin + (turn > kFewestTurns ? kTime_ms : kMostTime_ms); ++turn) {
    const auto n = static_cast<std::uint32_t>(9 + random() % (turn % 2 == 0 ? 200 : kLongest - 9));
    std::memset(own.data(), std::to_integer<int>(value_of(turn)), n);
    ping->write.store(std::uint64_t{turn} << 32 | n, std::memory_order_release);
    WEFT_REQUIRE(side.succeeds(side.qp.post_write(region.sge(0, n), remote)));
    const std::int64_t give_up = now_ms() + kMostTime_ms;
    while (ping->seen.load(std::memory_order_acquire) != turn) {
      WEFT_REQUIRE(now_ms() < give_up);
      sched_yield();
    }
  }
  ping->over.store(true);
  wire.put(turn);
}

class EndOfAWrite : public testing::TestWithParam<MemoryKind> {};

TEST_P(EndOfAWrite, comes_last) {
  Mailbox<Ping> ping;
  Partner reader([&](const Wire& wire) { run_reader(wire, GetParam(), ping); });
  Partner writer([&](const Wire& wire) { run_ping_writer(wire, ping); });
  introduce(reader.wire(), writer.wire());
  writer.wire().put(reader.wire().get<RemoteAddress>());
  std::uint32_t turns = 0;
  ASSERT_TRUE(writer.wire().get(&turns)) << "the reader saw an end before the rest";
  EXPECT_GT(turns, kFewestTurns);
  EXPECT_EQ(reader.join(), 0);
  EXPECT_EQ(writer.join(), 0);
}

INSTANTIATE_TEST_SUITE_P(Neighbours, EndOfAWrite,
                         testing::Values(MemoryKind::kHeap, MemoryKind::kArena),
                         [](const auto& kind) { return name_of(kind.param); });

}  // namespace
}  // namespace weft::test

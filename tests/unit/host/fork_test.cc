#include "host/fork.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <thread>

#include "host/shared_memory.h"
#include "unit/host/host_kit.h"

namespace weft::host {
namespace {

using test::bytes_of;
using test::Child;
using test::Pair;
using Peers = SharedMemory::Peers;

constexpr std::size_t kForkedSize = std::size_t{1} << 16;

SharedMemory make_memory() {
  return SharedMemory::create("weft-test", kForkedSize, kForkedSize, Peers::kWrite).value();
}

TEST(Fork, child_has_private_zeros_where_its_parent_has_shared_memory) {
  const auto mine = make_memory();
  const auto received =
      SharedMemory::receive(dup(mine.fd()), kForkedSize, kForkedSize, Peers::kRead)
          .value();  // read only
  std::memset(mine.data(), 7, kForkedSize);
  Child child([&] {
    for (const SharedMemory* memory : {&mine, &received}) {
      for (const std::byte byte : memory->bytes()) {
        if (byte != std::byte{0}) return 1;
      }
      std::memset(memory->data(), 9, kForkedSize);
      if (memory->fd() != -1) return 2;
    }
    return mine.data()[5] == std::byte{9} ? 0 : 3;
  });
  EXPECT_EQ(child.exit_code(), 0);
  for (const std::byte byte : mine.bytes()) ASSERT_EQ(byte, std::byte{7});
}

TEST(Fork, child_does_not_keep_its_parents_connections_open) {
  Pair pair;
  std::array<int, 2> end{};
  ASSERT_EQ(pipe2(end.data(), O_CLOEXEC), 0);
  const Fd reading(end[0]);
  Fd writing(end[1]);
  const int raw = reading.get();
  fd_is_gone(raw);  // the child needs this one
  Child child([raw] {
    char letter = 0;
    return read(raw, &letter, 1) == 0 ? 0 : 1;  // lives until the parent closes
  });
  pair.there.close();
  EXPECT_EQ(pair.here.receive(16, 2000).error().code, Errc::kNotFound);
  pair.listener.close();
  // The name is free too, when the child has come to closing its copy.
  EXPECT_TRUE(test::soon([&] { return LocalSocket::listen(pair.name).has_value(); }));
  writing.reset();
  EXPECT_EQ(child.exit_code(), 0);
}

TEST(Fork, child_that_ends_does_not_end_its_parents_connections) {
  Pair pair;
  Child child([] { return 0; });
  EXPECT_EQ(child.exit_code(), 0);
  ASSERT_TRUE(pair.there.send(bytes_of("x"), {}));
  EXPECT_TRUE(pair.here.receive(16, 0));
}

TEST(Fork, inherited_handles_do_not_touch_what_the_child_opened_under_their_numbers) {
  std::optional<Pair> pair(std::in_place);
  std::optional<SharedMemory> memory(make_memory());
  Child child([&] {
    const int number = pair->here.fd();
    if (number != -1 || pair->here.send(bytes_of("x"), {}).has_value()) return 1;
    std::array<int, 8> own{};
    for (int& fd : own) fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    pair.reset();
    memory.reset();
    const auto lost = [](int fd) { return fcntl(fd, F_GETFD) < 0; };
    return std::any_of(own.begin(), own.end(), lost) ? 2 : 0;
  });
  EXPECT_EQ(child.exit_code(), 0);
}

TEST(Fork, child_can_make_its_own) {
  const auto mine = make_memory();
  Child child([] {
    const auto own = make_memory();
    std::memset(own.data(), 3, kForkedSize);
    Pair pair;
    const std::array<int, 1> fds{own.fd()};
    if (!pair.there.send(bytes_of("x"), fds)) return 1;
    auto message = pair.here.receive(16, 2000);
    if (!message || message->fds.size() != 1) return 2;
    const auto theirs =
        SharedMemory::receive(std::move(message->fds[0]), kForkedSize, kForkedSize, Peers::kWrite);
    if (!theirs || theirs->data()[kForkedSize - 1] != std::byte{3}) return 3;
    // Its own child does not get them either, and it goes on having them.
    Child grandchild([&] { return own.data()[0] == std::byte{0} && own.fd() < 0 ? 0 : 1; });
    if (grandchild.exit_code() != 0) return 4;
    return own.data()[0] == std::byte{3} && pair.there.send(bytes_of("x"), {}) ? 0 : 5;
  });
  EXPECT_EQ(child.exit_code(), 0);
}

TEST(Fork, what_is_gone_is_left_alone_in_the_child) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  close_in_child(ends[0]);
  close_in_child(ends[1]);
  fd_is_gone(ends[1]);
  void* const kept =
      mmap(nullptr, kForkedSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(kept, MAP_FAILED);
  forget_mapping_in_child(kept, kForkedSize);
  mapping_is_gone(kept);
  Child child([&] {
    std::memset(kept, 1, 1);
    return fcntl(ends[0], F_GETFD) < 0 && fcntl(ends[1], F_GETFD) >= 0 ? 0 : 1;
  });
  EXPECT_EQ(child.exit_code(), 0);
  EXPECT_EQ(*static_cast<char*>(kept), 1);  // shared with the child as before
  fd_is_gone(ends[0]);
  munmap(kept, kForkedSize);
  close(ends[0]);
  close(ends[1]);
}

TEST(Fork, is_counted_in_the_child_and_its_functions_run_in_order) {
  static const SharedMemory* memory = nullptr;
  static int steps = 0;
  const auto mine = make_memory();
  memory = &mine;
  std::memset(mine.data(), 7, kForkedSize);
  call_in_child([] {
    // After the mappings.
    if (memory != nullptr && memory->data()[0] == std::byte{0}) steps = 1;
  });
  call_in_child([] { steps *= 2; });
  const unsigned before = fork_generation();
  Child child([before] { return steps == 2 && fork_generation() > before ? 0 : 1; });
  EXPECT_EQ(child.exit_code(), 0);
  EXPECT_EQ(steps, 0);
  EXPECT_EQ(fork_generation(), before);
  memory = nullptr;
}

/// In a child: 0 when it has neither a memfd nor a mapping of one.
int look_for_memfds(const char* name) {
  static std::array<char, 1 << 17> text{};
  const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  std::size_t have = 0;
  for (ssize_t count = 1; count > 0; have += static_cast<std::size_t>(count)) {
    count = read(maps, text.data() + have, text.size() - 1 - have);
    if (count < 0) return 1;
  }
  if (have == 0 || have == text.size() - 1) return 2;
  if (std::strstr(text.data(), name) != nullptr) return 3;
  for (int fd = 0; fd < 64; ++fd) {
    if (fd != maps && fcntl(fd, F_GET_SEALS) >= 0) return 4;
  }
  return 0;
}

TEST(Fork, finds_nothing_half_open_while_other_threads_open_and_close) {
  std::atomic<bool> stop{false};
  std::array<std::thread, 2> threads;
  for (std::thread& thread : threads) {
    thread = std::thread([&stop] {
      while (!stop.load(std::memory_order_relaxed)) {
        const auto memory = SharedMemory::create("weft-fork-test", 4096, 0, Peers::kWrite).value();
        const ForkHold hold;  // for the duplicate, which nobody registered yet
        SharedMemory::receive(dup(memory.fd()), 1, 4096, Peers::kRead).value();
      }
    });
  }
  int bad = 0;
  for (int i = 0; i < 100 && bad == 0; ++i) {
    Child child([] { return look_for_memfds("weft-fork-test"); });
    bad = child.exit_code();
  }
  stop.store(true, std::memory_order_relaxed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0);
}

}  // namespace
}  // namespace weft::host

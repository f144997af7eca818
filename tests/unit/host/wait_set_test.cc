#include "host/wait_set.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "host/fd.h"
#include "unit/host/host_kit.h"

namespace weft::host {
namespace {

/// Stands for a socket of weft's, and for the signal of a queue of events.
struct Counter {
  void raise() const { EXPECT_EQ(eventfd_write(fd, 1), 0); }
  void clear() const {
    eventfd_t taken = 0;
    EXPECT_EQ(eventfd_read(fd, &taken), 0);
  }
  const Fd owner{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  const int fd = owner.get();
};

bool polls_readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

struct WaitSetTest : testing::Test {
  void SetUp() override { ASSERT_TRUE(set.open(signal.fd)); }
  bool carry(std::vector<int> fds) { return set.carry(fds); }
  bool readable() const { return polls_readable(set.fd()); }

  Counter signal, first, second;
  WaitSet set;
};

TEST_F(WaitSetTest, is_readable_while_its_signal_is) {
  EXPECT_FALSE(readable());
  signal.raise();
  EXPECT_TRUE(readable());
  EXPECT_TRUE(readable()) << "nobody has taken it";
  signal.clear();
  EXPECT_FALSE(readable());
}

TEST_F(WaitSetTest, is_readable_while_a_socket_is_that_it_carries) {
  ASSERT_TRUE(carry({first.fd, second.fd}));
  EXPECT_TRUE(set.carries());
  EXPECT_FALSE(readable());
  second.raise();
  EXPECT_TRUE(readable());
  second.clear();
  EXPECT_FALSE(readable());
  first.raise();
  EXPECT_TRUE(readable());
}

TEST_F(WaitSetTest, drops_what_it_carried_and_keeps_its_signal) {
  ASSERT_TRUE(carry({first.fd, second.fd}));
  first.raise();
  ASSERT_TRUE(carry({}));
  EXPECT_FALSE(set.carries());
  EXPECT_FALSE(readable());
  second.raise();
  EXPECT_FALSE(readable());
  signal.raise();
  EXPECT_TRUE(readable());
}

TEST_F(WaitSetTest, carries_others_in_place_of_those_before) {
  ASSERT_TRUE(carry({first.fd}));
  first.raise();
  ASSERT_TRUE(carry({second.fd}));
  EXPECT_FALSE(readable());
  second.raise();
  EXPECT_TRUE(readable());
  second.clear();
  ASSERT_TRUE(carry({second.fd, first.fd}));  // the one that stays is no mistake
  EXPECT_TRUE(readable());
}

TEST_F(WaitSetTest, carries_the_same_again_after_it_dropped_them) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(carry({first.fd}));
    ASSERT_TRUE(carry({first.fd}));
    first.raise();
    EXPECT_TRUE(readable());
    first.clear();
    ASSERT_TRUE(carry({}));
  }
}

TEST_F(WaitSetTest, wakes_one_who_already_waits_for_it_when_a_socket_is_added) {
  // A program that sleeps in epoll_wait while another thread of it arms a queue.
  const int loop = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{.events = EPOLLIN, .data = {}};
  ASSERT_EQ(epoll_ctl(loop, EPOLL_CTL_ADD, set.fd(), &event), 0);
  EXPECT_EQ(epoll_wait(loop, &event, 1, 0), 0);
  first.raise();
  ASSERT_TRUE(carry({first.fd}));
  EXPECT_EQ(epoll_wait(loop, &event, 1, 10'000), 1);
  close(loop);
}

TEST_F(WaitSetTest, tells_by_its_flags_whether_it_blocks) {
  const auto blocks = [&] { return set.blocks().value(); };
  EXPECT_FALSE(blocks());
  fcntl(set.fd(), F_SETFL, 0);
  EXPECT_TRUE(blocks());
  const int copy = dup(set.fd());
  fcntl(copy, F_SETFL, O_NONBLOCK);  // the flag is the file's, whatever the number
  EXPECT_FALSE(blocks());
  close(copy);
  EXPECT_FALSE(blocks());
}

TEST_F(WaitSetTest, tells_that_its_program_has_closed_it) {
  const int number = set.fd();
  close(number);
  const auto blocks = set.blocks();
  ASSERT_FALSE(blocks);
  const std::array<int, 1> sockets{first.fd};
  EXPECT_FALSE(set.carry(sockets));
  EXPECT_FALSE(set.carries());
  // Whoever destroys it closes the number.
  ASSERT_EQ(dup2(first.fd, number), number);
}

TEST_F(WaitSetTest, carries_nothing_where_the_kernel_refuses_one) {
  // Sets inside each other, as many as the kernel has room for.
  std::vector<int> sets{epoll_create1(EPOLL_CLOEXEC)};
  for (;;) {
    const int outer = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{.events = EPOLLIN, .data = {}};
    const bool taken = epoll_ctl(outer, EPOLL_CTL_ADD, sets.back(), &event) == 0;
    sets.push_back(outer);
    if (!taken) break;
    ASSERT_LT(sets.size(), 100U);
  }
  const Fd deepest(dup(sets[sets.size() - 2]));
  EXPECT_FALSE(carry({first.fd, deepest.get(), second.fd}));
  EXPECT_FALSE(set.carries());
  first.raise();
  second.raise();
  EXPECT_FALSE(readable());
  signal.raise();
  EXPECT_TRUE(readable());
  signal.clear();
  EXPECT_FALSE(carry({-1}));
  EXPECT_FALSE(set.carries());
  EXPECT_TRUE(carry({first.fd}));  // what can be carried still is
  EXPECT_TRUE(readable());
  for (const int fd : sets) close(fd);
}

TEST_F(WaitSetTest, is_its_parents_in_a_child_which_cannot_change_it) {
  ASSERT_TRUE(carry({first.fd}));
  const int number = set.fd();
  first.raise();
  test::Child child([&] {
    if (set.fd() >= 0 || set.blocks().has_value()) return 1;
    const Counter other;
    const std::array<int, 1> own{other.fd};
    if (set.carry(own)) return 2;
    if (!set.carry({})) return 3;
    return polls_readable(number) ? 0 : 4;  // to poll it is allowed
  });
  EXPECT_EQ(child.exit_code(), 0);
  EXPECT_TRUE(readable()) << "the parent's set has lost its socket";
  first.clear();
  second.raise();
  EXPECT_FALSE(readable());
}

}  // namespace
}  // namespace weft::host

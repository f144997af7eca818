#include "host/event_signal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

namespace weft::host {
namespace {

using namespace std::chrono_literals;

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

struct EventSignalTest : testing::Test {
  void SetUp() override {
    ASSERT_TRUE(signal.open(false));
    fcntl(signal.fd(), F_SETFL, 0);  // as libibverbs' descriptors are: they block
  }
  EventSignal signal;
};

TEST_F(EventSignalTest, is_readable_from_the_first_event_to_the_last) {
  EXPECT_FALSE(readable(signal.fd()));
  signal.raise();
  signal.raise();
  EXPECT_TRUE(readable(signal.fd()));
  signal.clear();
  EXPECT_FALSE(readable(signal.fd()));
}

TEST_F(EventSignalTest, does_not_block_when_somebody_has_read_the_descriptor) {
  signal.raise();
  eventfd_t taken;
  ASSERT_EQ(eventfd_read(signal.fd(), &taken), 0);
  signal.clear();  // would hang
  EXPECT_FALSE(take_count(signal.fd()));
}

TEST_F(EventSignalTest, does_not_wait_where_the_program_does_not_want_to_block) {
  fcntl(signal.fd(), F_SETFL, O_NONBLOCK);
  EXPECT_EQ(signal.wait(signal.seen()), EAGAIN);
}

TEST_F(EventSignalTest, does_not_wait_for_what_came_before) {
  const std::uint32_t seen = signal.seen();
  signal.raise();
  EXPECT_EQ(signal.wait(seen), 0);
}

void on_signal(int) {}

/// What wait() gives in a thread that gets a signal, and a while later the event.
int wait_with_signal(EventSignal& signal, int flags) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = on_signal;
  action.sa_flags = flags;
  sigaction(SIGUSR2, &action, &before);
  std::atomic<int> result{-1};
  const std::uint32_t seen = signal.seen();
  std::thread waiter([&] { result = signal.wait(seen); });
  for (int i = 0; i < 20 && result == -1; ++i) {
    pthread_kill(waiter.native_handle(), SIGUSR2);
    std::this_thread::sleep_for(2ms);
  }
  signal.raise();
  waiter.join();
  sigaction(SIGUSR2, &before, nullptr);
  return result;
}

TEST_F(EventSignalTest, is_interrupted_like_a_read) {
  EXPECT_EQ(wait_with_signal(signal, 0), EINTR);
  EXPECT_EQ(wait_with_signal(signal, SA_RESTART), 0);
}

}  // namespace
}  // namespace weft::host

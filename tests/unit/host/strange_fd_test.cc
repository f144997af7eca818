#include "host/strange_fd.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace weft::host {
namespace {

std::set<std::string> closer_threads() {
  std::set<std::string> numbers;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (name == "weft-closer") numbers.insert(task.path().filename());
  }
  return numbers;
}

/// The writing end of a pipe is closed aside; the reading end sees it.
bool is_closed_aside() {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return false;
  close_aside(ends[1]);
  pollfd hangs_up{ends[0], POLLIN, 0};
  const bool closed = poll(&hangs_up, 1, 30'000) == 1 && (hangs_up.revents & POLLHUP) != 0;
  close(ends[0]);
  return closed;
}

TEST(StrangeFd, is_closed_by_threads_that_stay) {
  ASSERT_TRUE(is_closed_aside());
  const auto first = closer_threads();
  ASSERT_FALSE(first.empty());
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(is_closed_aside()) << i;
    usleep(1000);
  }
  // None ends in the middle of the program's life: that would free and unmap memory beside
  // libraries that patch munmap. A busy moment may have brought more of them, but not one a time.
  const auto last = closer_threads();
  EXPECT_TRUE(last.contains(*first.begin()));
  EXPECT_LE(last.size(), 8u);
}

}  // namespace
}  // namespace weft::host

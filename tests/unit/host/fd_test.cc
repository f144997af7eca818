#include "host/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/shared_memory.h"

namespace weft::host {
namespace {

int make() { return eventfd(0, EFD_CLOEXEC); }
bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

/// What a program does that closes everything and then opens something of its own.
int take_number_of(const Fd& fd) {
  close(fd.get());
  const int own = make();
  if (own != fd.get()) {  // another number was free
    dup2(own, fd.get());
    close(own);
  }
  return fd.get();
}

TEST(Fd, knows_its_file_again) {
  const Fd fd(make());
  EXPECT_TRUE(is_ours(fd.get()));
  EXPECT_EQ(fd.checked(), fd.get());
  const int programs = make();
  EXPECT_FALSE(is_ours(programs));
  close(programs);
  EXPECT_FALSE(is_ours(programs));
  EXPECT_FALSE(is_ours(-1));
}

TEST(Fd, that_cannot_be_marked_is_closed_and_leaves_the_others_known) {
  const int name = open("/", O_PATH | O_CLOEXEC);
  EXPECT_FALSE(Fd(name));
  EXPECT_FALSE(is_open(name));
  const int programs = make();
  EXPECT_FALSE(is_ours(programs));
  close(programs);
}

TEST(Fd, does_not_close_what_the_program_opened_under_its_number) {
  int number = -1;
  {
    const Fd fd(make());
    number = take_number_of(fd);
    EXPECT_EQ(fd.checked(), -1);
  }
  EXPECT_TRUE(is_open(number));
  close(number);
}

TEST(Fd, is_not_given_a_number_that_another_still_names) {
  Fd lost(make());
  close(lost.get());
  Fd next(make());
  EXPECT_NE(next.get(), lost.get());
  EXPECT_TRUE(is_ours(next.get()));
  EXPECT_EQ(lost.checked(), -1);
  lost.reset();
  EXPECT_TRUE(is_ours(next.get()));
}

TEST(Fd, of_a_parent_closes_nothing_else_in_a_child) {
  const Fd fd(make());
  const int number = take_number_of(fd);
  const pid_t child = fork();
  if (child == 0) _exit(is_open(number) ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(number);
}

TEST(Fd, shared_memory_is_ours_whatever_a_peer_does_to_its_mark) {
  const auto memory =
      SharedMemory::create("weft-test", 4096, 4096, SharedMemory::Peers::kRead).value();
  const int number = memory.fd();
  ASSERT_GE(number, 0);
  ASSERT_EQ(fcntl(number, F_SETSIG, 0), 0);  // through a descriptor of the peer's
  EXPECT_EQ(memory.fd(), number);
  // The program has closed it and uses the number for another memory of its own.
  const int other = memfd_create("program", MFD_CLOEXEC);
  ASSERT_EQ(dup3(other, number, O_CLOEXEC), number);
  EXPECT_EQ(memory.fd(), -1);
  close(other);
  close(number);
}

}  // namespace
}  // namespace weft::host

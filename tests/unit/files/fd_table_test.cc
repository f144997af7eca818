#include "files/fd_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "host/fd.h"

namespace weft::files {
namespace {

constexpr const char* kPath = "/dev/infiniband/test";
int alive = 0;
std::string last_written;

class TestFile final : public CharFile {
 public:
  explicit TestFile(host::Fd fd) : fd_(std::move(fd)) { ++alive; }
  ~TestFile() override { --alive; }
  int fd() const override { return fd_.get(); }
  ssize_t write(std::span<const std::byte> bytes) override {
    last_written.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return static_cast<ssize_t>(bytes.size());
  }

 private:
  host::Fd fd_;
};

std::unique_ptr<CharFile> open_test(int flags) {
  if ((flags & O_ACCMODE) == O_RDONLY) {
    errno = EACCES;
    return nullptr;
  }
  const host::ForkHold hold;
  return std::make_unique<TestFile>(host::Fd(eventfd(0, EFD_CLOEXEC)));
}

int open_one(int flags = O_RDWR) {
  emulate(kPath, makedev(10, 99), open_test);
  return open_emulated(kPath, flags).value();
}

void close_one(int fd) {
  forget_char_files(fd, fd);
  close(fd);
}

std::span<const std::byte> text(const char* words) {
  return std::as_bytes(std::span(words, std::char_traits<char>::length(words)));
}

TEST(FdTable, what_the_program_writes_reaches_the_object) {
  const int fd = open_one();
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(may_be_char_file(fd));
  const auto found = find_char_file(fd);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->number, makedev(10, 99));
  EXPECT_EQ(found->file->write(text("hello")), 5);
  EXPECT_EQ(last_written, "hello");
  close_one(fd);
}

TEST(FdTable, a_path_that_nobody_emulates_is_not_opened_here) {
  EXPECT_EQ(open_emulated("/dev/infiniband/nothing", O_RDWR), std::nullopt);
  EXPECT_EQ(emulated_number("/dev/infiniband/nothing"), std::nullopt);
}

TEST(FdTable, a_refusal_of_the_device_is_the_programs_errno) {
  EXPECT_EQ(open_one(O_RDONLY), -1);
  EXPECT_EQ(errno, EACCES);
  EXPECT_EQ(alive, 0);
}

TEST(FdTable, the_programs_number_is_close_on_exec_if_asked_for) {
  const int stays = open_one(O_RDWR);
  const int goes = open_one(O_RDWR | O_CLOEXEC);
  EXPECT_EQ(fcntl(stays, F_GETFD), 0);
  EXPECT_EQ(fcntl(goes, F_GETFD), FD_CLOEXEC);
  close_one(stays);
  close_one(goes);
}

TEST(FdTable, the_object_goes_with_the_last_number) {
  const int fd = open_one();
  const int copy = dup(fd);
  share_char_file(fd, copy);
  ASSERT_EQ(alive, 1);
  close_one(fd);
  EXPECT_EQ(alive, 1);
  EXPECT_FALSE(find_char_file(fd));
  ASSERT_TRUE(find_char_file(copy));
  close_one(copy);
  EXPECT_EQ(alive, 0);
  EXPECT_FALSE(may_be_char_file(copy));
}

TEST(FdTable, a_write_under_way_keeps_the_object) {
  const int fd = open_one();
  {
    const auto writing = find_char_file(fd);
    close_one(fd);
    EXPECT_EQ(alive, 1);
    EXPECT_EQ(writing->file->write(text("last")), 4);
  }
  EXPECT_EQ(alive, 0);
}

TEST(FdTable, a_range_is_forgotten_at_once) {
  const int first = open_one();
  const int second = open_one();
  forget_char_files(std::max(first, second), 1'000'000);
  EXPECT_EQ(alive, 1);
  forget_char_files(0, 1'000'000);
  EXPECT_EQ(alive, 0);
  close(first);
  close(second);
}

TEST(FdTable, a_number_that_was_closed_behind_our_back_is_not_ours_any_more) {
  const int fd = open_one();
  close(fd);  // as fclose does, which asks nobody
  const int other = open("/dev/null", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(dup2(other, fd), 0);
  EXPECT_FALSE(find_char_file(fd));
  EXPECT_EQ(alive, 0);
  close(fd);
  close(other);
}

TEST(FdTable, a_child_after_fork_has_numbers_of_its_own) {
  const int fd = open_one();
  const pid_t child = fork();
  if (child == 0) {
    const bool has = find_char_file(fd).has_value();
    close_one(fd);
    _exit(has && !find_char_file(fd) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(find_char_file(fd));
  close_one(fd);
}

TEST(FdTable, a_child_after_vfork_takes_nothing_from_its_parent) {
  const int fd = open_one();
  const pid_t child = vfork();
  if (child == 0) {
    forget_char_files(0, 1'000'000);  // runs in our memory
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(alive, 1);
  EXPECT_TRUE(find_char_file(fd));
  close_one(fd);
}

}  // namespace
}  // namespace weft::files

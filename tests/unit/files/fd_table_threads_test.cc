#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "files/fd_table.h"
#include "host/fd.h"

namespace weft::files {
namespace {

std::atomic<int> files_alive{0};

class Counted final : public CharFile {
 public:
  Counted() : fd_(eventfd(0, EFD_CLOEXEC)) { ++files_alive; }
  ~Counted() override {
    gone_ = true;
    --files_alive;
  }
  int fd() const override { return fd_.get(); }
  ssize_t write(std::span<const std::byte> bytes) override {
    std::this_thread::yield();
    return gone_ ? -1 : static_cast<ssize_t>(bytes.size());
  }

 private:
  host::Fd fd_;
  std::atomic<bool> gone_{false};
};

TEST(FdTableThreads, writes_during_a_close_find_the_object_whole_or_none) {
  emulate("/dev/infiniband/counted", 1, [](int) -> std::unique_ptr<CharFile> {
    const host::ForkHold hold;
    return std::make_unique<Counted>();
  });
  std::atomic<int> current{-1};
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> writers;
  for (int i = 0; i < 3; ++i) {
    writers.emplace_back([&] {
      const std::byte one{1};
      while (!done) {
        if (const auto found = find_char_file(current)) wrong += found->file->write({&one, 1}) != 1;
      }
    });
  }
  for (int i = 0; i < 2000; ++i) {
    const int fd = open_emulated("/dev/infiniband/counted", O_RDWR).value();
    current = fd;
    std::this_thread::yield();
    forget_char_files(fd, fd);
    close(fd);
  }
  done = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(files_alive, 0);
}

}  // namespace
}  // namespace weft::files

#include "host/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <string>

#include "unit/host/host_kit.h"

namespace weft::host {
namespace {

using test::Child;
using test::open_fds;
using Peers = SharedMemory::Peers;

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kMemoryBytes = 16 * kPageBytes;
constexpr int kGoodSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

SharedMemory make(Peers peers, std::size_t reserved = kMemoryBytes) {
  return SharedMemory::create("weft-test", kMemoryBytes, reserved, peers).value();
}

int memfd(std::size_t bytes, int seals, unsigned flags = 0) {
  const int fd = memfd_create("weft-test", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return -1;
  if (seals != 0 && fcntl(fd, F_ADD_SEALS, seals) != 0) return -1;
  return fd;
}

/// Pages that the memfd has, in bytes.
std::size_t reserved_bytes(const SharedMemory& memory) {
  struct stat status {};
  fstat(memory.fd(), &status);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

/// The code with which `fd` is refused; kBusy stands for "it was not".
Errc refusal(int fd, Peers mine = Peers::kRead, std::size_t least = 1,
             std::size_t most = kMemoryBytes) {
  const auto memory = SharedMemory::receive(fd, least, most, mine);
  return memory ? Errc::kBusy : memory.error().code;
}

TEST(SharedMemory, is_zero_at_first_and_the_same_bytes_for_a_receiver) {
  const auto mine = make(Peers::kWrite);
  for (const std::byte byte : mine.bytes()) ASSERT_EQ(byte, std::byte{0});
  const auto theirs =
      SharedMemory::receive(dup(mine.fd()), kMemoryBytes, kMemoryBytes, Peers::kWrite).value();
  ASSERT_NE(theirs.data(), mine.data());
  std::memcpy(mine.data() + kPageBytes, "from the owner", 15);
  EXPECT_STREQ(reinterpret_cast<char*>(theirs.data() + kPageBytes), "from the owner");
  std::memcpy(theirs.data(), "from the peer", 14);
  EXPECT_STREQ(reinterpret_cast<char*>(mine.data()), "from the peer");
}

TEST(SharedMemory, has_whole_pages) {
  const auto memory = SharedMemory::create("weft-test", kPageBytes + 1, 1, Peers::kRead).value();
  EXPECT_EQ(memory.size(), 2 * kPageBytes);
}

TEST(SharedMemory, can_neither_shrink_nor_grow_nor_lose_its_seals) {
  for (const Peers peers : {Peers::kRead, Peers::kWrite}) {
    const auto memory = make(peers);
    EXPECT_EQ(ftruncate(memory.fd(), 0), -1);
    EXPECT_EQ(ftruncate(memory.fd(), kMemoryBytes - kPageBytes), -1);
    EXPECT_EQ(ftruncate(memory.fd(), kMemoryBytes + kPageBytes), -1);
    EXPECT_EQ(fcntl(memory.fd(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  }
}

TEST(SharedMemory, for_readers_refuses_every_way_of_writing) {
  const auto memory = make(Peers::kRead);
  EXPECT_EQ(mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd(), 0),
            MAP_FAILED);
  EXPECT_EQ(refusal(dup(memory.fd()), Peers::kWrite), Errc::kNotPermitted);
  EXPECT_EQ(pwrite(memory.fd(), "x", 1, 0), -1);
  EXPECT_EQ(fallocate(memory.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPageBytes), -1);
  const std::string path = "/proc/self/fd/" + std::to_string(memory.fd());
  const Fd again(open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(again);
  EXPECT_EQ(mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0),
            MAP_FAILED);

  const auto theirs =
      SharedMemory::receive(dup(memory.fd()), kMemoryBytes, kMemoryBytes, Peers::kRead).value();
  EXPECT_EQ(mprotect(theirs.data(), kMemoryBytes, PROT_READ | PROT_WRITE), -1);
  std::memcpy(memory.data(), "the owner still can", 20);
  EXPECT_STREQ(reinterpret_cast<char*>(theirs.data()), "the owner still can");
}

TEST(SharedMemory, reserves_pages_when_asked_also_after_it_is_sealed) {
  auto memory = make(Peers::kRead, kPageBytes);
  EXPECT_EQ(reserved_bytes(memory), kPageBytes);
  ASSERT_TRUE(memory.reserve(4 * kPageBytes, 2 * kPageBytes));
  EXPECT_EQ(reserved_bytes(memory), 3 * kPageBytes);
  memory.close_fd();
  EXPECT_EQ(memory.reserve(0, kMemoryBytes).error().code, Errc::kInvalidState);
  memory.data()[0] = std::byte{1};  // the mapping is still there
}

TEST(SharedMemory, reserves_more_than_one_step) {
  constexpr std::size_t kLarge = (std::size_t{33} << 20) + kPageBytes;
  const auto memory = SharedMemory::create("weft-test", kLarge, kLarge, Peers::kWrite).value();
  EXPECT_EQ(reserved_bytes(memory), kLarge);
}

TEST(SharedMemory, of_no_or_too_many_bytes_is_an_error) {
  const auto code = [](std::size_t bytes, std::size_t reserved) {
    const auto memory = SharedMemory::create("weft-test", bytes, reserved, Peers::kRead);
    return memory ? Errc::kBusy : memory.error().code;
  };
  const std::size_t before = open_fds();
  EXPECT_EQ(code(0, 0), Errc::kInvalidArgument);
  EXPECT_EQ(code(kPageBytes, 2 * kPageBytes), Errc::kInvalidArgument);
  EXPECT_EQ(code(SIZE_MAX, 0), Errc::kInvalidArgument);
  EXPECT_EQ(code(std::size_t{1} << 60, 0), Errc::kOutOfMemory);
  EXPECT_EQ(open_fds(), before);
}

TEST(SharedMemory, beyond_the_file_size_limit_is_an_error_and_no_signal) {
  Child child([] {
    const rlimit limit{kPageBytes, kPageBytes};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    const auto memory = SharedMemory::create("weft-test", kMemoryBytes, kMemoryBytes, Peers::kRead);
    if (memory || memory.error().code != Errc::kOutOfMemory) return 2;
    return memory.error().message.find("ulimit -f") == std::string::npos ? 3 : 0;
  });
  EXPECT_EQ(child.exit_code(), 0);
}

TEST(SharedMemory, without_a_free_descriptor_names_the_limit) {
  Child child([] {
    const rlimit limit{0, 0};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
    const auto memory = SharedMemory::create("weft-test", kMemoryBytes, kMemoryBytes, Peers::kRead);
    if (memory || memory.error().code != Errc::kOutOfMemory) return 2;
    return memory.error().message.find("RLIMIT_NOFILE") == std::string::npos ? 3 : 0;
  });
  EXPECT_EQ(child.exit_code(), 0);
}

TEST(SharedMemory, receiver_refuses_what_is_not_a_sealed_memfd) {
  const std::size_t before = open_fds();
  EXPECT_EQ(refusal(memfd(kMemoryBytes, 0)), Errc::kInvalidArgument);
  for (const int seal : {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL}) {
    EXPECT_EQ(refusal(memfd(kMemoryBytes, kGoodSeals & ~seal)), Errc::kInvalidArgument) << seal;
  }
  EXPECT_EQ(refusal(memfd(kMemoryBytes, kGoodSeals)), Errc::kBusy);  // nothing else is missing

  std::array<int, 2> pipe_fds{};
  ASSERT_EQ(pipe2(pipe_fds.data(), O_CLOEXEC), 0);
  EXPECT_EQ(refusal(pipe_fds[0]), Errc::kInvalidArgument);
  EXPECT_EQ(refusal(pipe_fds[1]), Errc::kInvalidArgument);
  EXPECT_EQ(refusal(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), Errc::kInvalidArgument);
  EXPECT_EQ(refusal(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), Errc::kInvalidArgument);
  EXPECT_EQ(refusal(open("/", O_PATH | O_CLOEXEC)), Errc::kInvalidArgument);
  EXPECT_EQ(refusal(-1), Errc::kInvalidArgument);
  EXPECT_TRUE(test::soon([&] { return open_fds() == before; }));  // some by another thread
}

TEST(SharedMemory, receiver_refuses_a_wrong_size) {
  const std::size_t before = open_fds();
  EXPECT_EQ(refusal(memfd(kMemoryBytes - kPageBytes, kGoodSeals), Peers::kRead, kMemoryBytes,
                    kMemoryBytes),
            Errc::kInvalidArgument);
  EXPECT_EQ(refusal(memfd(kMemoryBytes + kPageBytes, kGoodSeals), Peers::kRead, kMemoryBytes,
                    kMemoryBytes),
            Errc::kInvalidArgument);
  EXPECT_EQ(refusal(memfd(kPageBytes + 8, kGoodSeals)), Errc::kInvalidArgument);
  EXPECT_EQ(refusal(memfd(0, kGoodSeals), Peers::kRead, 0), Errc::kInvalidArgument);
  EXPECT_EQ(open_fds(), before);
}

TEST(SharedMemory, receiver_refuses_huge_pages) {
  const int fd = memfd(std::size_t{2} << 20, kGoodSeals, MFD_HUGETLB);
  if (fd < 0) GTEST_SKIP() << "this kernel has no huge pages to offer";
  EXPECT_EQ(refusal(fd, Peers::kRead, 1, std::size_t{2} << 20), Errc::kInvalidArgument);
}

TEST(SharedMemory, receiver_refuses_to_write_through_a_descriptor_for_reading) {
  const auto memory = make(Peers::kWrite);
  const std::string path = "/proc/self/fd/" + std::to_string(memory.fd());
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(refusal(dup(fd), Peers::kRead), Errc::kBusy);
  EXPECT_EQ(refusal(fd, Peers::kWrite), Errc::kNotPermitted);
}

TEST(SharedMemory, gives_back_mapping_and_descriptor_with_its_owner) {
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);) {
      count += line.find("weft-gone-test") != std::string::npos ? 1 : 0;
    }
    return count;
  };
  const std::size_t before = open_fds();
  {
    auto memory = SharedMemory::create("weft-gone-test", kMemoryBytes, 0, Peers::kRead).value();
    auto moved = std::move(memory);
    EXPECT_FALSE(memory);
    EXPECT_TRUE(moved);
    EXPECT_EQ(mappings(), 1);
    moved = SharedMemory::create("weft-gone-test", kPageBytes, 0, Peers::kRead).value();
    EXPECT_EQ(mappings(), 1);
    EXPECT_EQ(open_fds(), before + 1);
  }
  EXPECT_EQ(mappings(), 0);
  EXPECT_EQ(open_fds(), before);
}

}  // namespace
}  // namespace weft::host

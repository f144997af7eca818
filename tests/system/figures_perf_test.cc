// The figures of the data path that can be counted rather than timed: instructions by callgrind,
// allocations by a counting operator new, bytes of an idle queue pair. Not under sanitizers.
#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/verbs.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <regex>
#include <string>
#include <vector>

namespace {

std::atomic<std::uint64_t> allocations{0};

}  // namespace

// NOLINTBEGIN: the replaced global operators count, and pass on to malloc.
[[gnu::noinline]] void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
// NOLINTEND

namespace {

using weft::Access;
namespace v = weft::verbs;

constexpr std::uint64_t kMaxInstructions = 250;
constexpr std::uint64_t kMaxIdleBytes = 1024;
constexpr int kWrites = 1000;

/// Runs a command and returns what it printed; the exit status goes to *status.
std::string run(const std::string& command, int* status) {
  std::string output;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), n);
  }
  *status = pclose(pipe);
  return output;
}

/// Instructions to post and poll an 8-byte write, with these settings in the environment.
std::uint64_t instructions_of_a_write(const std::string& environment) {
  int status = 0;
  const std::string output =
      run(environment +
              " valgrind --tool=callgrind --toggle-collect='*measured_writes*' "
              "--callgrind-out-file=/dev/null " WEFT_BIN_DIR "/write_loop " +
              std::to_string(kWrites),
          &status);
  EXPECT_EQ(status, 0) << output;
  std::smatch match;
  const bool found = std::regex_search(output, match, std::regex("Collected : ([0-9]+)"));
  EXPECT_TRUE(found) << output;
  return found ? std::stoull(match[1]) / kWrites : 0;
}

TEST(Figures, an_8_byte_write_takes_at_most_250_instructions_to_post_and_poll) {
  // B1.7
  const std::uint64_t each = instructions_of_a_write("");
  std::printf("post and poll of an 8-byte RDMA write: %lu instructions (at most %lu)\n", each,
              kMaxInstructions);
  EXPECT_GT(each, 50u) << "the loop was not measured";
  EXPECT_LE(each, kMaxInstructions);
}

TEST(Figures, an_8_byte_write_takes_more_when_fast_paths_are_off) {
  // Else the suites that run once more with this setting would compare nothing.
  const std::uint64_t each = instructions_of_a_write("WEFT_FAST_PATHS=off");
  std::printf("without fast paths: %lu instructions\n", each);
  EXPECT_GT(each, 2 * kMaxInstructions);
}

TEST(Figures, the_data_path_allocates_nothing) {
  const auto device = v::Device::open().value();
  const auto pd = device.allocate_pd().value();
  const auto cq = device.create_cq(64).value();
  std::vector<std::uint64_t> memory(1 << 16);
  const auto region = pd.register_memory(memory, Access::kLocalWrite | Access::kRemoteWrite |
                                                     Access::kRemoteRead | Access::kRemoteAtomic)
                          .value();
  auto [a, b] = pd.create_connected_pair(cq).value();
  const auto half = static_cast<std::uint32_t>(region.length() / 2);
  const auto round = [&](std::uint32_t bytes) {
    const weft::Sge here = region.sge(0, bytes);
    const weft::Sge there = region.sge(half, bytes);
    const weft::Sge word = region.sge(0, 8);
    weft::SendRequest add;
    add.op = weft::SendOp::kFetchAdd;
    add.sges = {&word, 1};
    add.remote = region.remote(half);
    add.operand = 1;
    bool ok = b.post_receive(there).has_value() && a.post_send(here).has_value() &&
              a.post_write(here, region.remote(half)).has_value() &&
              a.post_read(here, region.remote(half)).has_value() && a.post_send(add).has_value();
    for (int completions = 0; ok && completions < 5;) {
      std::array<weft::Completion, 8> out;
      const std::size_t n = cq.poll(out);
      for (std::size_t i = 0; i < n; ++i) ok = ok && out[i].ok();
      completions += static_cast<int>(n);
    }
    return ok;
  };
  ASSERT_TRUE(round(8));  // rings, tables and this thread's slot are made at the first use
  ASSERT_TRUE(round(half));
  const std::uint64_t before = allocations.load();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(round(8));
    ASSERT_TRUE(round(half));
  }
  EXPECT_EQ(allocations.load() - before, 0u);
}

/// In a child: opens a device, warms up, lets the kernel forbid every system call but exit, writes,
/// and ends. Any other call would be its death by SIGKILL.
int write_without_kernel(int result) {
  const auto device = v::Device::open().value();
  const auto pd = device.allocate_pd().value();
  const auto cq = device.create_cq(64).value();
  std::array<std::uint64_t, 16> memory{};
  const auto region =
      pd.register_memory(memory, Access::kLocalWrite | Access::kRemoteWrite).value();
  auto [a, b] = pd.create_connected_pair(cq).value();
  int failures = 0;
  const auto write = [&](std::uint32_t bytes) {
    if (!a.post_write(region.sge(0, bytes), region.remote(64))) ++failures;
    while (!cq.poll()) continue;
  };
  write(8);
  write(64);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) return 2;
  for (int i = 0; i < kWrites; ++i) {
    write(8);
    write(64);
  }
  // Only this thread is confined: the word goes through the pipe, and the parent ends the process.
  const char word = failures == 0 ? 'g' : 'b';
  static_cast<void>(!::write(result, &word, 1));
  syscall(SYS_exit, 0);
  return 0;
}

TEST(Figures, writes_and_polls_make_no_system_call) {
  // B1.7
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    _exit(write_without_kernel(ends[1]));
  }
  close(ends[1]);
  pollfd wait{ends[0], POLLIN, 0};
  char word = 0;
  if (poll(&wait, 1, 10'000) == 1) static_cast<void>(!read(ends[0], &word, 1));
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  close(ends[0]);
  EXPECT_EQ(word, 'g') << "no word: the kernel was asked for something, and ended the thread";
}

TEST(Figures, an_idle_queue_pair_takes_at_most_1_KiB) {
  // B1.1
  constexpr std::size_t kCount = 100'000;
  const auto device = v::Device::open().value();
  const auto pd = device.allocate_pd().value();
  const auto cq = device.create_cq(64).value();
  std::vector<v::QueuePair> all;
  all.reserve(kCount);
  const std::size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
  for (std::size_t i = 0; i < kCount; i += 2) {
    auto pair = pd.create_connected_pair(cq);
    ASSERT_TRUE(pair.has_value()) << pair.error().message;
    all.push_back(std::move(pair->first));
    all.push_back(std::move(pair->second));
  }
  const std::size_t each = (mallinfo2().uordblks + mallinfo2().hblkhd - before) / kCount;
  std::printf("%zu connected idle queue pairs: %zu bytes each (at most %lu)\n", kCount, each,
              kMaxIdleBytes);
  EXPECT_GT(each, 100u) << "nothing was measured";
  EXPECT_LE(each, kMaxIdleBytes);
  // They are real: the last one still works.
  std::array<std::uint64_t, 2> words{7, 0};
  const auto region = pd.register_memory(words, Access::kLocalWrite | Access::kRemoteWrite).value();
  ASSERT_TRUE(all[kCount - 2].post_write(region.sge(0, 8), region.remote(8)));
  ASSERT_TRUE(cq.wait(std::chrono::seconds(5)).value().ok());
  EXPECT_EQ(words[1], 7u);
}

}  // namespace

// A process that runs out of memory: the call that needs more says so, and what exists goes on.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/verbs.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace {

namespace v = weft::verbs;
using weft::Access;

constexpr std::size_t kMost = 1'000'000;
constexpr std::size_t kHeadroomBytes = 16 << 20;

/// Bytes of address space that the process has now.
std::size_t address_space() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// 0 when everything was as it should be; otherwise which step was not.
int run_out_of_memory() {
  const auto device = v::Device::open().value();
  const auto pd = device.allocate_pd().value();
  const auto cq = device.create_cq(16).value();
  std::array<std::uint64_t, 2> words{7, 0};
  const auto region = pd.register_memory(words, Access::kLocalWrite | Access::kRemoteWrite).value();
  auto [here, there] = pd.create_connected_pair(cq).value();
  if (!here.post_write(region.sge(0, 8), region.remote(8))) return 1;  // its ring is there
  std::vector<v::QueuePair> many;
  many.reserve(kMost);

  const rlimit limit{address_space() + kHeadroomBytes, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &limit) != 0) return 2;
  bool refused = false;
  for (std::size_t i = 0; i < kMost && !refused; ++i) {
    auto qp = pd.create_queue_pair(cq, cq);
    refused = !qp && qp.error().code == weft::Errc::kOutOfMemory;
    if (qp) many.push_back(std::move(*qp));
  }
  if (!refused || many.empty()) return 3;
  while (cq.poll()) continue;
  words[0] = 8;
  if (!here.post_write(region.sge(0, 8), region.remote(8))) return 4;
  const auto done = cq.poll();
  return done && done->ok() && words[1] == 8 ? 0 : 5;
}

TEST(OutOfMemory, is_an_error_and_what_existed_goes_on) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory does not live with a limit";
#endif
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(run_out_of_memory());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace

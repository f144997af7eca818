// What programs cost that wait and get nothing: connected, armed and idle, each in its own way, all
// of a process's threads together hardly ever wake. Sleeping is counted, not time: a busy machine
// does not make a process sleep more often.
#include <dirent.h>

#include <fstream>
#include <memory>

#include "system/waiting_kit.h"

namespace weft::test {
namespace {

/// What all threads of a process have used.
struct ProcessUsage {
  std::int64_t sleeps = 0;
  std::int64_t cpu_us = 0;
};

ProcessUsage usage_of_process(pid_t process) {
  ProcessUsage usage;
  const std::string folder = "/proc/" + std::to_string(process) + "/task/";
  DIR* const tasks = opendir(folder.c_str());
  if (tasks == nullptr) return usage;
  while (const dirent* task = readdir(tasks)) {
    if (task->d_name[0] == '.') continue;
    std::int64_t number = 0;
    std::ifstream(folder + task->d_name + "/schedstat") >> number;
    usage.cpu_us += number / 1000;
    std::ifstream status(folder + task->d_name + "/status");
    for (std::string word; status >> word;) {
      if (word == "voluntary_ctxt_switches:" && status >> number) usage.sleeps += number;
    }
  }
  closedir(tasks);
  return usage;
}

/// Plays for a while, says so, and then waits for what never comes.
void play_and_wait(const Wire& peer, Turn turn, Way way, const Wire& test) {
  WaitingProgram program;
  program.connection.connect(peer);
  program.play(peer, turn, 50, way);
  Waiter waiter(program.channel.shown, way);
  program.queue.arm();
  test.put('w');
  alarm(0);
  for (;;) waiter.next();  // an event may be left
}

class WaitingIdle : public testing::TestWithParam<WaitPath> {};

TEST_P(WaitingIdle, costs_next_to_no_time_and_hardly_a_wake_up) {
  constexpr auto kMeasured = 6s;
  std::vector<std::unique_ptr<TwoProcesses>> pairs;
  std::vector<std::unique_ptr<Wire>> said;
  int device = 1;
  for (const Way way : kAllWays) {
    std::array<int, 2> ends{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    said.push_back(std::make_unique<Wire>(ends[0]));
    const Wire says(ends[1]);
    pairs.push_back(std::make_unique<TwoProcesses>(
        GetParam(), [&](const Wire& peer) { play_and_wait(peer, Turn::kFirst, way, says); },
        [&](const Wire& peer) { play_and_wait(peer, Turn::kSecond, way, says); }, device));
    device += 2;
  }
  for (const auto& wire : said) {
    char waits = 0;
    ASSERT_TRUE(wire->get(&waits) && wire->get(&waits));
  }
  std::this_thread::sleep_for(1s);

  std::vector<ProcessUsage> before;
  const auto each = [&](const auto& look) {
    for (const auto& pair : pairs) {
      look(pair->first().pid());
      look(pair->second().pid());
    }
  };
  const auto begun = std::chrono::steady_clock::now();
  each([&](pid_t process) { before.push_back(usage_of_process(process)); });
  std::this_thread::sleep_for(kMeasured);
  const auto took = std::chrono::steady_clock::now() - begun;
  const std::int64_t seconds = std::chrono::ceil<std::chrono::seconds>(took).count();
  std::size_t i = 0;
  each([&](pid_t process) {
    const ProcessUsage after = usage_of_process(process);
    const std::string who = name_of(kAllWays[i / 2]) + (i % 2 == 0 ? ", first" : ", second");
    ASSERT_GT(after.sleeps, 0) << who << " has ended";
    EXPECT_LT(after.sleeps - before[i].sleeps, 5 * seconds) << who << " in " << seconds << " s";
    // A hundredth of a processor.
    EXPECT_LT(after.cpu_us - before[i].cpu_us, 10'000 * seconds * kWaitingSlowness) << who;
    ++i;
  });
}

INSTANTIATE_TEST_SUITE_P(Paths, WaitingIdle,
                         testing::Values(WaitPath::kNeighbour, WaitPath::kFramed),
                         [](const auto& given) { return std::string(name_of(given.param)); });

}  // namespace
}  // namespace weft::test

#include <sched.h>
#include <sys/wait.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include "ucma_kit.h"

// When the connection manager's thread wakes up: for every message and deadline, whoever else looks
// for them meanwhile, and for nothing else.
namespace weft::ucma::test {
namespace {

/// 0: it has not started yet.
pid_t thread_of_manager() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (name == "weft-cm") return static_cast<pid_t>(std::stol(task.path().filename()));
  }
  return 0;
}

pid_t wait_for_manager() {
  pid_t thread = thread_of_manager();
  for (int i = 0; i < 30'000 && thread == 0; ++i) {
    usleep(1000);
    thread = thread_of_manager();
  }
  return thread;
}

/// How often it has gone to sleep.
long sleeps_of(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  std::string word;
  while (status >> word) {
    if (word != "voluntary_ctxt_switches:") continue;
    long count = -1;
    status >> count;
    return count;
  }
  return -1;
}

/// Nothing runs it for this long, sooner or later.
bool falls_asleep(pid_t thread, int quiet_ms) {
  long before = sleeps_of(thread);
  for (int i = 0; i < 100; ++i) {
    usleep(static_cast<useconds_t>(quiet_ms) * 1000);
    const long after = sleeps_of(thread);
    if (after > 0 && after == before) return true;
    before = after;
  }
  return false;
}

/// The thread shares the caller's processor from now on, and runs only when the caller sleeps:
/// whatever would wake it has a while to be taken away.
bool let_manager_wait_for_us(pid_t thread) {
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(sched_getcpu(), &here);
  const sched_param none{};
  return sched_setaffinity(0, sizeof here, &here) == 0 &&
         sched_setaffinity(thread, sizeof here, &here) == 0 &&
         sched_setscheduler(thread, SCHED_BATCH, &none) == 0;
}

/// Connects to a port that nobody has, looks once, and waits for the refusal. In a process of its
/// own: what it does to its threads stays there.
int connect_look_and_wait() {
  const Channel channel(O_RDWR | O_CLOEXEC | O_NONBLOCK);
  const Id id = Id::create(channel);
  id.resolve_all("127.0.0.1", 4);
  const pid_t thread = wait_for_manager();
  if (thread == 0 || !falls_asleep(thread, 50)) return 1;
  if (!let_manager_wait_for_us(thread)) return 2;
  if (id.connect() != 0) return 3;
  rdma_ucm_event_resp event{};
  const int looked = channel.get_event(event);
  // Looking for the port took so long that it is not asked again.
  if (looked == 0) return static_cast<EventCode>(event.event) == EventCode::kRejected ? 0 : 4;
  return looked == EAGAIN && channel.next_code(30'000) == EventCode::kRejected ? 0 : 5;
}

TEST(UcmaWakeups, a_program_that_looks_for_events_takes_none_from_the_thread) {
  // Several: on a busy machine the thread may come first in some.
  std::array<pid_t, 8> children{};
  for (pid_t& child : children) {
    child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(connect_look_and_wait());
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

TEST(UcmaWakeups, a_listener_and_idle_connections_need_none) {
  Pair pair;
  pair.establish();
  const pid_t thread = wait_for_manager();
  ASSERT_NE(thread, 0);
  EXPECT_TRUE(falls_asleep(thread, 300));
}

}  // namespace
}  // namespace weft::ucma::test

#include "lane.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <thread>

namespace weft::bench {
namespace {

using namespace std::chrono_literals;

void pin_to_core(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) give_up("no second core", std::strerror(errno));
}

SharedMemory* map_shared_memory() {
  void* at = mmap(nullptr, sizeof(SharedMemory), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (at == MAP_FAILED) give_up("shared memory", std::strerror(errno));
  return new (at) SharedMemory;
}

pid_t start_side(Side side, SharedMemory* shared, const std::array<int, 2>& fds,
                 const std::function<void(const Lane&)>& part) {
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  signal(SIGPIPE, SIG_IGN);
  const int mine = static_cast<int>(side);
  close(fds[1 - mine]);
  pin_to_core(mine);
  part(Lane(side, shared, fds[mine]));
  std::fflush(nullptr);
  _exit(0);
}

/// Waits for both; the first that fails, or the clock, ends the other.
bool reap(std::array<pid_t, 2> pids, double seconds) {
  const auto start = Clock::now();
  bool good = pids[0] > 0 && pids[1] > 0;
  for (int left = (pids[0] > 0) + (pids[1] > 0); left > 0;) {
    if (seconds_since(start) > seconds || !good) {
      if (good) std::fprintf(stderr, "a pair took longer than %.0f s\n", seconds);
      good = false;
      for (const pid_t pid : pids) {
        if (pid > 0) kill(pid, SIGKILL);
      }
    }
    for (pid_t& pid : pids) {
      int status = 0;
      if (pid <= 0 || waitpid(pid, &status, WNOHANG) != pid) continue;
      if (WIFSIGNALED(status) && good) {
        std::fprintf(stderr, "a side was ended by signal %d\n", WTERMSIG(status));
      }
      good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
      pid = 0;
      --left;
    }
    std::this_thread::sleep_for(1ms);
  }
  return good;
}

}  // namespace

void give_up(const char* what, const char* why) {
  std::fprintf(stderr, "%s %s\n", what, why);
  std::fflush(nullptr);
  _exit(1);
}

void Lane::send(std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = write(fd_, bytes.data(), bytes.size());
    if (n <= 0) _exit(1);  // the other side has said why
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void Lane::receive(std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = read(fd_, bytes.data(), bytes.size());
    if (n <= 0) _exit(1);  // the other side has said why
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void Lane::sample(const char* name, std::size_t size, const char* unit,
                  const std::function<double()>& measure) const {
  meet();
  const double before_ns = canary_ns();
  const double value = measure();
  meet();
  const double after_ns = canary_ns();
  if (first()) print_sample(name, size, unit, value, before_ns, after_ns);
}

bool run_pair(double seconds, const std::function<void(const Lane&)>& part) {
  SharedMemory* shared = map_shared_memory();
  std::array<int, 2> fds;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) != 0) return false;
  std::array<pid_t, 2> pids;
  for (const Side side : {Side::kFirst, Side::kSecond}) {
    pids[static_cast<std::size_t>(side)] = start_side(side, shared, fds, part);
  }
  for (const int fd : fds) close(fd);
  const bool good = reap(pids, seconds);
  munmap(shared, sizeof(SharedMemory));
  return good;
}

}  // namespace weft::bench

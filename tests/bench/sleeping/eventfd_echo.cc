// The least that two processes pay which wait for each other: asleep, and woken through eventfds,
// or awake, and looking at a word of memory. The peer writes that word itself, or sends a datagram,
// which a helper thread of the receiver sleeps for and writes: as any device in software does it
// for a program that spins in memory. No data moves but the number, which is the message's kind.
#include <netinet/in.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <thread>

#include "base/short_slice.h"
#include "options.h"
#include "usage/command_line.h"

namespace weft::bench {
namespace {

struct Settings {
  EchoPlan plan{.size = 8};
  std::string wait = "block";
  std::vector<int> cores;
  unsigned limit_s = 60;
};

/// One direction of a connection: an eventfd, or a word that both processes map, or a datagram
/// socket whose helper writes the word.
struct Bell {
  int fd = -1;  ///< of the sender, and of both if there is no helper
  std::atomic<std::uint64_t>* word = nullptr;
  int helpers_fd = -1;
};

void ring(const Bell& bell, Kind kind) {
  const auto value = static_cast<std::uint64_t>(kind) + 1;
  if (bell.fd < 0) return bell.word->store(value, std::memory_order_release);
  if (write(bell.fd, &value, sizeof value) != sizeof value) give_up_errno("write");
}

/// Ends with the process.
void start_helper(const Bell& bell) {
  if (bell.helpers_fd < 0) return;
  std::thread([bell] {
    base::ask_for_short_slices();
    std::uint64_t value = 0;
    while (read(bell.helpers_fd, &value, sizeof value) == sizeof value) {
      bell.word->store(value, std::memory_order_release);
    }
  }).detach();
}

/// Waits, in epoll_wait, in read or in a loop, and says which connection has something.
class Waiter {
 public:
  Waiter(const std::vector<Bell>& bells, bool with_epoll) : bells_(bells) {
    if (!with_epoll) return;
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    for (std::uint32_t i = 0; i < bells.size(); ++i) {
      epoll_event event{.events = EPOLLIN, .data = {.u32 = i}};
      if (epoll_ctl(epoll_, EPOLL_CTL_ADD, bells[i].fd, &event) != 0) give_up_errno("epoll_ctl");
    }
  }
  template <class OnMessage>
  void wait_once(OnMessage on_message) const {
    if (bells_[0].word != nullptr) return on_message(0, static_cast<Kind>(spin() - 1));
    epoll_event events[64];
    const int n = epoll_ < 0 ? 1 : epoll_wait(epoll_, events, std::size(events), -1);
    for (int i = 0; i < n; ++i) {
      const std::uint32_t connection = epoll_ < 0 ? 0 : events[i].data.u32;
      std::uint64_t value = 0;
      if (read(bells_[connection].fd, &value, sizeof value) != sizeof value) {
        give_up_errno("read from an eventfd");
      }
      on_message(connection, static_cast<Kind>(value - 1));
    }
  }

 private:
  /// The alarm ends it.
  std::uint64_t spin() const {
    std::uint64_t value = 0;
    while (value == 0) value = bells_[0].word->load(std::memory_order_acquire);
    bells_[0].word->store(0, std::memory_order_relaxed);
    return value;
  }

  const std::vector<Bell>& bells_;
  int epoll_ = -1;
};

void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) give_up_errno("sched_setaffinity");
}

void be_server(const Settings& settings, const std::vector<Bell>& in, const std::vector<Bell>& out,
               const Control& control) {
  EchoServer server(settings.plan.connections);
  start_helper(in[0]);
  const Waiter waiter(in, settings.wait == "epoll");
  while (!server.finished()) {
    waiter.wait_once([&](std::uint32_t connection, Kind kind) {
      server.on_message(kind);
      ring(out[connection], kind);
    });
  }
  control.tell(server.used());
}

void be_client(const Settings& settings, const std::vector<Bell>& in, const std::vector<Bell>& out,
               const Control& control) {
  EchoClient client(settings.plan);
  start_helper(in[0]);
  const Waiter waiter(in, settings.wait == "epoll");
  for (std::uint32_t i = 0; i < settings.plan.connections; ++i) ring(out[i], client.before_send(i));
  while (!client.finished()) {
    waiter.wait_once([&](std::uint32_t connection, Kind) {
      if (client.after_echo(connection)) ring(out[connection], client.before_send(connection));
    });
  }
  nlohmann::ordered_json report{{"program", "eventfd_echo"}, {"wait", settings.wait}};
  report.update(client.report(control.hear<Usage>()));
  std::puts(report.dump().c_str());
}

std::atomic<std::uint64_t>* make_word() {
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) give_up_errno("mmap");
  return new (page) std::atomic<std::uint64_t>(0);
}

sockaddr_in bind_to_loopback(int fd) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  void* const any = &name;
  auto* const generic = static_cast<sockaddr*>(any);
  socklen_t size = sizeof name;
  if (bind(fd, generic, size) != 0 || getsockname(fd, generic, &size) != 0) give_up_errno("bind");
  return name;
}

void connect_to(int fd, const sockaddr_in& peer) {
  const void* const any = &peer;
  if (connect(fd, static_cast<const sockaddr*>(any), sizeof peer) != 0) give_up_errno("connect");
}

Bell make_bell(const std::string& wait) {
  if (wait == "spin") return {.word = make_word()};
  if (wait == "helper") {
    const int from = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const int to = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (from < 0 || to < 0) give_up_errno("socket");
    const sockaddr_in sender = bind_to_loopback(from), receiver = bind_to_loopback(to);
    connect_to(from, receiver);
    connect_to(to, sender);
    return {.fd = from, .word = make_word(), .helpers_fd = to};
  }
  const Bell bell{.fd = eventfd(0, EFD_CLOEXEC)};
  if (bell.fd < 0) give_up_errno("eventfd");
  return bell;
}

void run(const Settings& settings) {
  std::vector<Bell> forth, back;
  for (std::uint32_t i = 0; i < settings.plan.connections; ++i) {
    forth.push_back(make_bell(settings.wait));
    back.push_back(make_bell(settings.wait));
  }
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) give_up_errno("socketpair");
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) give_up_errno("fork");
  const bool server = child == 0;
  if (server) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
  }
  if (settings.cores.size() == 2) pin_to(settings.cores[server]);
  close(fds[!server]);
  const Control control{Descriptor(fds[server])};
  alarm(settings.limit_s);
  if (server) {
    be_server(settings, forth, back, control);
    _exit(0);
  }
  be_client(settings, back, forth, control);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  weft::bench::Settings settings;
  CLI::App app("Two processes that wait for each other, asleep or spinning; prints JSON.");
  app.add_option("--wait", settings.wait,
                 "how both sleep (spin: they look at a word of memory; helper: the same, and "
                 "a thread of each writes it when a datagram comes)")
      ->check(CLI::IsMember({"block", "epoll", "spin", "helper"}));
  app.add_option("--cores", settings.cores, "pin the client and the server to these")->expected(2);
  weft::bench::add_plan_options(app, settings.plan);
  weft::bench::add_limit_option(app, settings.limit_s);
  app.footer(
      "Examples:\n"
      "  eventfd_echo --rounds 10000 --cores 0 1\n"
      "  eventfd_echo --wait epoll --connections 64\n"
      "  eventfd_echo --wait spin");
  if (const auto status = weft::usage::parse(app, argc, argv)) return *status;
  if (settings.wait != "epoll" && settings.plan.connections > 1) {
    weft::bench::give_up("several connections need --wait epoll");
  }
  weft::bench::run(settings);
}

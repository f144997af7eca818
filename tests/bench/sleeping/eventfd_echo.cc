// The least that a sleeping program pays: two processes that wake each other through eventfds. No
// data moves but the eventfd's own number, which carries the kind of the message.
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "options.h"

namespace weft::bench {
namespace {

struct Settings {
  EchoPlan plan{.size = 8};
  std::string wait = "block";
  std::vector<int> cores;
  unsigned limit_s = 60;
};

void ring(int fd, Kind kind) {
  const auto value = static_cast<std::uint64_t>(kind) + 1;
  if (write(fd, &value, sizeof value) != sizeof value) give_up_errno("write to an eventfd");
}

/// Sleeps, in epoll_wait or in read, and says which connection has something.
class Sleeper {
 public:
  Sleeper(const std::vector<int>& fds, bool with_epoll) : fds_(fds) {
    if (!with_epoll) return;
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    for (std::uint32_t i = 0; i < fds.size(); ++i) {
      epoll_event event{.events = EPOLLIN, .data = {.u32 = i}};
      if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fds[i], &event) != 0) give_up_errno("epoll_ctl");
    }
  }
  template <class OnMessage>
  void sleep_once(OnMessage on_message) const {
    epoll_event events[64];
    const int n = epoll_ < 0 ? 1 : epoll_wait(epoll_, events, std::size(events), -1);
    for (int i = 0; i < n; ++i) {
      const std::uint32_t connection = epoll_ < 0 ? 0 : events[i].data.u32;
      std::uint64_t value = 0;
      if (read(fds_[connection], &value, sizeof value) != sizeof value) {
        give_up_errno("read from an eventfd");
      }
      on_message(connection, static_cast<Kind>(value - 1));
    }
  }

 private:
  const std::vector<int>& fds_;
  int epoll_ = -1;
};

void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) give_up_errno("sched_setaffinity");
}

void be_server(const Settings& settings, const std::vector<int>& in, const std::vector<int>& out,
               const Control& control) {
  EchoServer server(settings.plan.connections);
  const Sleeper sleeper(in, settings.wait == "epoll");
  while (!server.finished()) {
    sleeper.sleep_once([&](std::uint32_t connection, Kind kind) {
      server.on_message(kind);
      ring(out[connection], kind);
    });
  }
  control.tell(server.used());
}

void be_client(const Settings& settings, const std::vector<int>& in, const std::vector<int>& out,
               const Control& control) {
  EchoClient client(settings.plan);
  const Sleeper sleeper(in, settings.wait == "epoll");
  for (std::uint32_t i = 0; i < settings.plan.connections; ++i) ring(out[i], client.before_send(i));
  while (!client.finished()) {
    sleeper.sleep_once([&](std::uint32_t connection, Kind) {
      if (client.after_echo(connection)) ring(out[connection], client.before_send(connection));
    });
  }
  nlohmann::ordered_json report{{"program", "eventfd_echo"}, {"wait", settings.wait}};
  report.update(client.report(control.hear<Usage>()));
  std::puts(report.dump().c_str());
}

void run(const Settings& settings) {
  std::vector<int> forth, back;
  for (std::uint32_t i = 0; i < settings.plan.connections; ++i) {
    forth.push_back(eventfd(0, EFD_CLOEXEC));
    back.push_back(eventfd(0, EFD_CLOEXEC));
    if (forth.back() < 0 || back.back() < 0) give_up_errno("eventfd");
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
  CLI::App app("Two processes that wake each other through eventfds; prints JSON.");
  app.add_option("--wait", settings.wait, "how both sleep")
      ->check(CLI::IsMember({"block", "epoll"}));
  app.add_option("--cores", settings.cores, "pin the client and the server to these")->expected(2);
  weft::bench::add_plan_options(app, settings.plan);
  weft::bench::add_limit_option(app, settings.limit_s);
  app.footer(
      "Examples:\n"
      "  eventfd_echo --rounds 10000 --cores 0 1\n"
      "  eventfd_echo --wait epoll --connections 64");
  CLI11_PARSE(app, argc, argv);
  if (settings.wait == "block" && settings.plan.connections > 1) {
    weft::bench::give_up("several connections need --wait epoll");
  }
  weft::bench::run(settings);
}

// What the same work costs over TCP: a server and a client with all their connections in one epoll
// loop each, TCP_NODELAY, one message under way on each connection.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "options.h"
#include "usage/command_line.h"

namespace weft::bench {
namespace {

struct Settings {
  EchoPlan plan;
  Endpoint at;
  bool server = false;
  unsigned limit_s = 60;
};

/// The connections of one process and what has come of each one's next message.
class Loop {
 public:
  explicit Loop(std::uint32_t size) : size_(size), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    if (epoll_.get() < 0) give_up_errno("epoll_create1");
  }

  void add(Descriptor socket) {
    epoll_event event{.events = EPOLLIN,
                      .data = {.u32 = static_cast<std::uint32_t>(connections_.size())}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) {
      give_up_errno("epoll_ctl");
    }
    connections_.push_back({std::move(socket), std::vector<std::byte>(size_), 0});
  }

  /// Sends the connection's buffer: a client's last echo, a server's last request.
  void send(std::uint32_t connection, Kind kind) {
    Connection& c = connections_[connection];
    c.bytes[0] = static_cast<std::byte>(kind);
    for (std::size_t sent = 0; sent < size_;) {
      const ssize_t n = ::send(c.socket.get(), &c.bytes[sent], size_ - sent, MSG_NOSIGNAL);
      if (n <= 0) give_up_errno("send");
      sent += static_cast<std::size_t>(n);
    }
  }

  /// Sleeps until something comes; calls for each message that is whole.
  template <class OnMessage>
  void sleep_once(OnMessage on_message) {
    epoll_event events[64];
    const int n = epoll_wait(epoll_.get(), events, std::size(events), -1);
    for (int i = 0; i < n; ++i) {
      const std::uint32_t connection = events[i].data.u32;
      if (receive(connections_[connection])) {
        on_message(connection, static_cast<Kind>(connections_[connection].bytes[0]));
      }
    }
  }

 private:
  struct Connection {
    Descriptor socket;
    std::vector<std::byte> bytes;
    std::size_t filled;
  };

  bool receive(Connection& c) const {
    const ssize_t n = recv(c.socket.get(), &c.bytes[c.filled], size_ - c.filled, MSG_DONTWAIT);
    if (n == 0) give_up("the other process is gone");
    if (n < 0 && errno == EAGAIN) return false;
    if (n < 0) give_up_errno("recv");
    c.filled += static_cast<std::size_t>(n);
    if (c.filled < size_) return false;
    c.filled = 0;
    return true;
  }

  const std::uint32_t size_;
  const Descriptor epoll_;
  std::vector<Connection> connections_;
};

void be_server(const Settings& settings) {
  const Descriptor listener = listen_at(settings.at);
  const Control control(accept_from(listener));
  const auto plan = control.hear<EchoPlan>();
  Loop loop(plan.size);
  for (std::uint32_t i = 0; i < plan.connections; ++i) loop.add(accept_from(listener));
  control.tell('r');  // ready
  EchoServer server(plan.connections);
  while (!server.finished()) {
    loop.sleep_once([&](std::uint32_t connection, Kind kind) {
      server.on_message(kind);
      loop.send(connection, kind);
    });
  }
  control.tell(server.used());
  control.hear<char>();
}

void be_client(const Settings& settings) {
  const Control control(connect_to(settings.at));
  control.tell(settings.plan);
  Loop loop(settings.plan.size);
  for (std::uint32_t i = 0; i < settings.plan.connections; ++i) loop.add(connect_to(settings.at));
  control.hear<char>();
  EchoClient client(settings.plan);
  for (std::uint32_t i = 0; i < settings.plan.connections; ++i) loop.send(i, client.before_send(i));
  while (!client.finished()) {
    loop.sleep_once([&](std::uint32_t connection, Kind) {
      if (client.after_echo(connection)) loop.send(connection, client.before_send(connection));
    });
  }
  nlohmann::ordered_json report{{"program", "tcp_echo"}, {"wait", "epoll"}};
  report.update(client.report(control.hear<Usage>()));
  std::puts(report.dump().c_str());
  control.tell('d');  // done: the server keeps its connections until all echoes are here
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  weft::bench::Settings settings;
  CLI::App app("Echo over TCP, asleep in epoll_wait between messages; the client prints JSON.");
  weft::bench::add_pair_options(app, settings.server, settings.at, settings.plan);
  weft::bench::add_limit_option(app, settings.limit_s);
  app.footer(
      "Examples:\n"
      "  tcp_echo --server & tcp_echo --rounds 10000\n"
      "  tcp_echo --server --address 10.0.0.1 --port 4801\n"
      "  tcp_echo --address 10.0.0.1 --port 4801 --connections 64 --size 64");
  if (const auto status = weft::usage::parse(app, argc, argv)) return *status;
  alarm(settings.limit_s);
  settings.server ? be_server(settings) : be_client(settings);
}

// An echo over verbs by a program that sleeps for its completions, as an event-driven server does:
// get the event, acknowledge it, ask for the next, poll until empty, sleep. It knows nothing of
// weft; `weft run` or an RNIC gives it a device.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "channel_waiter.h"
#include "options.h"
#include "usage/command_line.h"
#include "verbs_node.h"

namespace weft::bench {
namespace {

struct Settings {
  EchoPlan plan;
  Endpoint at;
  VerbsSettings verbs;
  std::string wait = "epoll";
  bool server = false;
  unsigned limit_s = 60;
};

const std::map<std::string, WaitMode> kWaitModes = {{"block", WaitMode::kBlock},
                                                    {"epoll", WaitMode::kEpoll},
                                                    {"poll", WaitMode::kPoll},
                                                    {"spin", WaitMode::kSpin}};

Kind kind_of(std::span<const std::byte> message) { return static_cast<Kind>(message[0]); }

void be_server(const Settings& settings) {
  const Control control(accept_from(listen_at(settings.at)));
  const auto plan = control.hear<EchoPlan>();
  VerbsNode node(settings.verbs, plan.connections, plan.size);
  ChannelWaiter waiter(kWaitModes.at(settings.wait), node.completions());
  node.connect(control);
  EchoServer server(plan.connections);
  while (!server.finished()) {
    for (const Completions* completions : waiter.wait()) {
      node.drain(*completions, [&](std::uint32_t connection, std::span<std::byte> message) {
        server.on_message(kind_of(message));
        std::memcpy(node.outgoing(connection).data(), message.data(), message.size());
        node.send(connection);
      });
    }
  }
  control.tell(server.used());
  control.hear<char>();
}

void be_client(const Settings& settings) {
  const Control control(connect_to(settings.at));
  control.tell(settings.plan);
  VerbsNode node(settings.verbs, settings.plan.connections, settings.plan.size);
  ChannelWaiter waiter(kWaitModes.at(settings.wait), node.completions());
  node.connect(control);
  EchoClient client(settings.plan);
  const auto send = [&](std::uint32_t connection) {
    node.outgoing(connection)[0] = static_cast<std::byte>(client.before_send(connection));
    node.send(connection);
  };
  for (std::uint32_t i = 0; i < settings.plan.connections; ++i) send(i);
  while (!client.finished()) {
    for (const Completions* completions : waiter.wait()) {
      node.drain(*completions, [&](std::uint32_t connection, std::span<std::byte>) {
        if (client.after_echo(connection)) send(connection);
      });
    }
  }
  nlohmann::ordered_json report{
      {"program", "verbs_echo"}, {"wait", settings.wait}, {"channels", node.completions().size()}};
  report.update(client.report(control.hear<Usage>()));
  std::puts(report.dump().c_str());
  control.tell('d');  // done: the server keeps its queue pairs until all echoes are here
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  weft::bench::Settings settings;
  weft::bench::VerbsSettings& verbs = settings.verbs;
  CLI::App app("Echo over verbs, asleep on completion channels; the client prints JSON.");
  weft::bench::add_pair_options(app, settings.server, settings.at, settings.plan);
  weft::bench::add_limit_option(app, settings.limit_s);
  app.add_option("--wait", settings.wait, "how this process sleeps (spin: it does not)")
      ->check(CLI::IsMember({"block", "epoll", "poll", "spin"}));
  app.add_flag("--channels-per-connection", verbs.channel_per_connection,
               "a completion channel and queue for each connection, not one for all");
  app.add_option("--signal-interval", verbs.signal_interval,
                 "ask for a completion of each N-th send (1: of all)")
      ->check(CLI::Range(1, 256));
  app.add_option("--device", verbs.device, "RDMA device; the first if not given");
  app.add_option("--ib-port", verbs.port, "port of the device");
  app.add_option("--gid-index", verbs.gid_index, "GID of the port");
  app.footer(
      "Examples:\n"
      "  weft run -- verbs_echo --server & weft run -- verbs_echo --rounds 10000\n"
      "  weft run -- verbs_echo --server --wait block & weft run -- verbs_echo --wait block\n"
      "  verbs_echo --server --device mlx5_0 --gid-index 3 --address 10.0.0.1\n"
      "  verbs_echo --device mlx5_0 --gid-index 3 --address 10.0.0.1 --connections 64\n"
      "  as frames over loopback: WEFT_PATH=framed weft run -- verbs_echo ... (both sides)");
  if (const auto status = weft::usage::parse(app, argc, argv)) return *status;
  alarm(settings.limit_s);
  settings.server ? be_server(settings) : be_client(settings);
}

#include "demo/options.h"

#include <charconv>

#include "base/version.h"

namespace weft::demo {
namespace {

constexpr std::uint64_t kMostConnections = 1'000'000, kMostPorts = 65'535;

/// HOST:PORT; says what is wrong.
std::string check_meeting(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  if (colon != std::string::npos && colon > 0) {
    const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, port);
    if (error == std::errc() && rest == end && port != 0) return {};
  }
  return "'" + text + "' is not HOST:PORT, such as 10.0.0.1:4900";
}

void add_exit_statuses(usage::Command& command, const std::string& failed) {
  command.statuses = {{"0", "all went well"},
                      {"1", failed},
                      {"2", "the command line is wrong, and nothing was started"}};
}

}  // namespace

const std::vector<std::string>& measurements() {
  static const std::vector<std::string> all{"latency_8",     "rate_8", "stream", "first_large",
                                            "while_growing", "idle",   "many",   "shared_queue"};
  return all;
}

usage::Command& add_demo_command(usage::Command& program, DemoArguments& arguments) {
  usage::Command& demo =
      program.add_command("demo", "shows a thousand channels between two processes, as it happens");
  demo.about = {
      "Two processes send messages of very different sizes through many channels, and check every "
      "byte that arrives. The screen shows how buffers grow where there is traffic and shrink "
      "where "
      "there is none; the table at the end says what memory that took."};
  ShowOptions& show = arguments.show;
  usage::whole_number(demo.add_option("--channels", show.channels, "how many channels (1000)"), 1,
                      20'000);
  demo.add_option("--seconds", show.seconds, "how long, from 1 to 600 (12)")
      ->type_name("SECONDS")
      ->check(CLI::Range(1.0, 600.0));
  demo.add_option("--address", show.address, "address of the RDMA device (127.0.0.1)")
      ->type_name("ADDRESS");
  CLI::Option* const await = usage::whole_number(
      demo.add_option("--await", arguments.await_at,
                      "one of two hosts: waits for the other at this TCP port, and shows"),
      1, kMostPorts);
  await->type_name("PORT");
  demo.add_option("--meet", arguments.meet, "the other host: where the one that waits is")
      ->type_name("HOST:PORT")
      ->excludes(await)
      ->check(check_meeting);
  demo.examples = {{"weft demo", "a thousand channels for twelve seconds"},
                   {"weft demo --channels 100 --seconds 5", "fewer, and shorter"},
                   {"weft run --device weft0=auto -- weft-channel demo --address 10.0.0.1 "
                    "--await 4900",
                    "one of two hosts, which has the address 10.0.0.1"},
                   {"weft run --device weft0=auto -- weft-channel demo --address 10.0.0.1 "
                    "--meet 10.0.0.1:4900",
                    "the other"}};
  add_exit_statuses(demo,
                    "a message was lost, doubled, reordered or damaged, or there is no "
                    "RDMA device");
  return demo;
}

usage::Command& add_bench_command(usage::Command& parent, const std::string& name,
                                  BenchArguments& arguments) {
  usage::Command& command =
      parent.add_command(name, "measures channels between two processes of this host");
  BenchOptions& bench = arguments.bench;
  command.add_flag("--json", bench.json, "the results as JSON");
  usage::one_of(command.add_option("--only", bench.only, "one measurement"), measurements());
  usage::whole_number(
      command.add_option("--connections", bench.connections, "idle ones, to be weighed (1000)"), 1,
      kMostConnections);
  usage::whole_number(
      command.add_option("--many", bench.many, "of which one in a hundred is busy (10000)"), 1,
      kMostConnections);
  command.add_option("--address", bench.address, "address of the RDMA device (127.0.0.1)")
      ->type_name("ADDRESS");
  CLI::Option* const side = usage::one_of(
      command.add_option("--side", arguments.side,
                         "only this side; the other is started elsewhere, and pipes join them"),
      {"here", "there"});
  command.add_option("--in", arguments.end.in, "file descriptor of the pipe from the other side")
      ->type_name("FD")
      ->needs(side);
  command.add_option("--out", arguments.end.out, "file descriptor of the pipe to the other side")
      ->type_name("FD")
      ->needs(side);
  const std::string path = usage::path_of(command);
  command.examples = {{path, "all measurements, about a minute"},
                      {path + " --only latency_8 --json", "one of them, for a program"}};
  add_exit_statuses(command, "a measurement failed, or there is no RDMA device");
  return command;
}

ChannelCommandLine::ChannelCommandLine()
    : program("weft-channel", "messages over RDMA through buffers that grow with the traffic") {
  program.set_version_flag("-V,--version", std::string("weft-channel ") + base::version(),
                           "print the version and exit");
  program.require_subcommand(1);
  program.about = {
      "The program uses the RDMA device that has the address, whoever made it. On a machine "
      "without "
      "one, `weft demo` and `weft bench channel` start it with a device of weft's."};
  demo_command = &add_demo_command(program, demo);
  add_bench_command(program, "bench", bench);
}

}  // namespace weft::demo

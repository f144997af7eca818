// weft-channel: shows channels at work, and measures them. Runs on any RDMA device; `weft demo` and
// `weft bench channel` start it under `weft run`.
#include <CLI/CLI.hpp>
#include <cstdlib>

#include "demo/bench.h"
#include "demo/show.h"
#include "demo/two_hosts.h"

int main(int argc, char** argv) {
  CLI::App app{"weft-channel: messages over RDMA through buffers that grow with the traffic"};
  app.require_subcommand(1);
  weft::demo::ShowOptions show;
  CLI::App* show_command = app.add_subcommand("demo", "a thousand channels between two processes");
  show_command->add_option("--channels", show.channels, "how many")->check(CLI::Range(1, 20000));
  show_command->add_option("--seconds", show.seconds, "how long")->check(CLI::Range(1.0, 600.0));
  show_command->add_option("--address", show.address, "of the RDMA device");
  std::uint16_t await_at = 0;
  std::string meet;
  CLI::Option* await_option = show_command->add_option(
      "--await", await_at, "one of two hosts: waits for the other at this TCP port, and prints");
  show_command->add_option("--meet", meet, "the other of them: HOST:PORT of the one that waits")
      ->excludes(await_option);
  weft::demo::BenchOptions bench;
  CLI::App* bench_command = app.add_subcommand("bench", "measures channels between two processes");
  bench_command->add_flag("--json", bench.json, "for programs");
  bench_command->add_option("--only", bench.only, "one measurement by name");
  bench_command->add_option("--connections", bench.connections, "idle ones, to be weighed");
  bench_command->add_option("--many", bench.many, "of which one in a hundred is busy");
  bench_command->add_option("--address", bench.address, "of the RDMA device");
  std::string side;
  weft::demo::PairEnd end;
  CLI::Option* side_option =
      bench_command->add_option("--side", side, "only this side; the other is started elsewhere")
          ->check(CLI::IsMember({"here", "there"}));
  bench_command->add_option("--in", end.in, "pipe from the other side")->needs(side_option);
  bench_command->add_option("--out", end.out, "pipe to the other side")->needs(side_option);
  CLI11_PARSE(app, argc, argv);
  if (!side.empty()) {
    end.side = side == "here" ? weft::demo::Side::kHere : weft::demo::Side::kThere;
    bench.end = end;
  }
  if (await_at != 0) show.end = weft::demo::await_other_host(await_at);
  if (const auto colon = meet.rfind(':'); colon != std::string::npos) {
    const auto port = static_cast<std::uint16_t>(std::atoi(meet.c_str() + colon + 1));
    show.end = weft::demo::meet_other_host(meet.substr(0, colon), port);
  }
  if (show_command->parsed()) return weft::demo::show(show);
  return weft::demo::bench(bench);
}

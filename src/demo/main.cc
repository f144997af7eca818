// weft-channel: shows channels at work, and measures them. Runs on any RDMA device; `weft demo` and
// `weft bench channel` start it under `weft run`.
#include <cstdlib>

#include "demo/options.h"
#include "demo/two_hosts.h"
#include "usage/command_line.h"

int main(int argc, char** argv) {
  weft::demo::ChannelCommandLine command_line;
  if (const auto status = weft::usage::parse(command_line.program, argc, argv)) return *status;
  auto& [show, await_at, meet] = command_line.demo;
  auto& [bench, side, end] = command_line.bench;
  if (!side.empty()) {
    end.side = side == "here" ? weft::demo::Side::kHere : weft::demo::Side::kThere;
    bench.end = end;
  }
  if (await_at != 0) show.end = weft::demo::await_other_host(await_at);
  if (const auto colon = meet.rfind(':'); colon != std::string::npos) {
    const auto port = static_cast<std::uint16_t>(std::atoi(meet.c_str() + colon + 1));
    show.end = weft::demo::meet_other_host(meet.substr(0, colon), port);
  }
  return command_line.demo_command->parsed() ? weft::demo::show(show) : weft::demo::bench(bench);
}

// What `weft demo` and `weft bench channel` can be told: the weft command says it in its help and
// checks it, weft-channel reads it. Filled in by parsing; the process has one thread.
#pragma once

#include <cstdint>
#include <string>

#include "demo/bench.h"
#include "demo/show.h"
#include "usage/command.h"

namespace weft::demo {

struct DemoArguments {
  ShowOptions show;
  std::uint16_t await_at = 0;
  std::string meet;
};

struct BenchArguments {
  BenchOptions bench;
  std::string side;
  PairEnd end;
};

/// The measurements, as --only takes them, in their order.
const std::vector<std::string>& measurements();

/// Adds "demo" to the program.
usage::Command& add_demo_command(usage::Command& program, DemoArguments& arguments);
/// Adds the measurements by this name: `weft-channel bench`, `weft bench channel`.
usage::Command& add_bench_command(usage::Command& parent, const std::string& name,
                                  BenchArguments& arguments);

/// All of weft-channel.
struct ChannelCommandLine {
  ChannelCommandLine();
  ChannelCommandLine(const ChannelCommandLine&) = delete;
  ChannelCommandLine& operator=(const ChannelCommandLine&) = delete;

  usage::Command program;
  DemoArguments demo;
  BenchArguments bench;
  const CLI::App* demo_command = nullptr;
};

}  // namespace weft::demo
